// Written by plait connect opencode; plait disconnect opencode removes this file.
// Gives the model what plait remembers, beside your message and below a command that failed.
// Whatever fails here, the message and the command go on.
import { spawn } from "node:child_process"

const COMMAND = ["plait"]
const PATIENCE_MS = 3000
const HINTS = true

function ask(event, payload) {
  return new Promise((resolve) => {
    let answer = ""
    let timer
    const done = (text) => {
      clearTimeout(timer)
      resolve(text)
    }
    try {
      const child = spawn(COMMAND[0], [...COMMAND.slice(1), "hook", "opencode", event], {
        cwd: payload.cwd,
        stdio: ["pipe", "pipe", "ignore"],
      })
      timer = setTimeout(() => {
        child.kill()
        done("")
      }, PATIENCE_MS)
      child.on("error", () => done(""))
      child.stdin.on("error", () => {})
      child.stdout.on("data", (data) => {
        answer += data
      })
      child.on("close", () => {
        try {
          done(JSON.parse(answer).hookSpecificOutput.additionalContext || "")
        } catch {
          done("")
        }
      })
      child.stdin.end(JSON.stringify({ ...payload, hook_event_name: event }))
    } catch {
      done("")
    }
  })
}

export const PlaitMemory = async ({ directory }) => {
  const started = new Set()
  let count = 0
  return {
    "chat.message": async (input, output) => {
      const payload = { session_id: input.sessionID, cwd: directory }
      const typed = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      const texts = []
      if (!started.has(input.sessionID)) {
        started.add(input.sessionID)
        texts.push(await ask("session.created", { ...payload, source: "startup" }))
      }
      const prompt = typed.map((part) => part.text).join("\n")
      texts.push(await ask("chat.message", { ...payload, prompt }))
      const text = texts.filter(Boolean).join("\n\n")
      if (text) {
        count += 1
        output.parts.push({
          id: `prt_plait_${Date.now().toString(36)}_${count}`,
          sessionID: input.sessionID,
          messageID: output.message.id,
          type: "text",
          text,
          synthetic: true,
        })
      }
    },
    "tool.execute.after": async (input, output) => {
      const exit = output?.metadata?.exit
      if (!HINTS || input.tool !== "bash" || !Number.isInteger(exit) || exit === 0) return
      const text = await ask("tool.execute.after", {
        session_id: input.sessionID,
        cwd: directory,
        tool_name: input.tool,
        tool_input: input.args,
        tool_response: { output: output.output, metadata: { exit } },
      })
      if (text) output.output = `${output.output}\n\n${text}`
    },
  }
}

"""Sample what chance finds: how near a memory is to questions that have nothing to do with it.

In a large memory something is near to any question, so a cosine means something only beside this
sample. It is taken by the process that writes, whenever the memory has grown by half, and only two
numbers of it are kept. `plait.ranking.relevance` uses them.
"""

# ruff: noqa: RUF001 - other scripts have letters that look like Latin ones

from plait.embedders import Embedder
from plait.errors import PlaitError
from plait.protocols import State, Store

# Particulars of other people's lives: a memory about the subject of one is not about the others,
# and their median does not notice. The middle of the cosines hardly depends on the language.
QUESTIONS: tuple[str, ...] = (
    "When does the ferry to the outer islands leave on winter Sundays?",
    "Which shelf in the cellar holds the jars of plum jam?",
    "What did the dentist say about my lower left molar?",
    "How much did Pavel pay for the second-hand cello?",
    "Who borrowed our ladder after the storm in October?",
    "Why did the baker stop making rye loaves with caraway?",
    "Where did grandmother hide the key of the garden shed?",
    "Which colour did we choose for the nursery curtains?",
    "How long should the lentils soak before the soup is cooked?",
    "What was the score of the hockey match against Linden?",
    "Which horse won the steeplechase on the second day?",
    "How many eggs does the lemon cake of aunt Rosa need?",
    "What is the pressure of the front tyre on the red motorbike?",
    "When was the chimney of the lake cottage last swept?",
    "Which violin teacher has a free hour on Thursday evening?",
    "How deep must tulip bulbs be planted in clay soil?",
    "Who won the chess tournament in the village hall?",
    "What does the vet recommend against ticks on the old dog?",
    "Which export settings did the choir use for its recording?",
    "How do I reset the thermostat of the greenhouse?",
    "Why was the invoice for the marble tiles sent back?",
    "Which vaccine does the cat need before the trip to Oslo?",
    "What exposure time worked for the photograph of the comet?",
    "How is the interest on the savings bond of Marta taxed?",
    "Wann fährt im Winter die letzte Fähre zur Insel?",
    "Wem hat Onkel Karl den alten Traktor verkauft?",
    "Wie lange muss der Sauerteig für das Roggenbrot ruhen?",
    "Welche Schuhgröße hat unser jüngster Neffe?",
    "Warum wurde das Chorkonzert in der Kapelle verschoben?",
    "Wo liegt der Ersatzschlüssel für das Gartenhaus?",
    "¿A qué hora sale el último autobús hacia el pueblo de la abuela?",
    "¿Quién ganó la carrera de burros en la fiesta de agosto?",
    "¿Cuánto azúcar lleva el dulce de membrillo de mi tía?",
    "¿Qué dijo el veterinario sobre la pata del caballo?",
    "¿Dónde guardamos las cortinas azules del comedor?",
    "¿Por qué se rompió la bomba de agua del molino?",
    "À quelle heure ferme la boulangerie du port le dimanche ?",
    "Qui a emprunté notre échelle après la tempête ?",
    "Combien de temps faut-il cuire la confiture de coings ?",
    "Quelle est la pointure de mon neveu pour ses patins ?",
    "Pourquoi le concert de la chorale a-t-il été reporté ?",
    "Où est rangée la clé de la cabane du jardin ?",
    "Когда зимой отходит последний паром на остров?",
    "Сколько сахара нужно для варенья из айвы?",
    "Кто выиграл шахматный турнир в деревенском клубе?",
    "Что сказал ветеринар о лапе старой собаки?",
    "Где лежит запасной ключ от садового домика?",
    "Почему перенесли концерт хора в часовне?",
    "冬天最后一班去小岛的渡船几点开？",
    "外婆做的柠檬蛋糕要放几个鸡蛋？",
    "谁在村里的象棋比赛中得了第一名？",
    "兽医对老狗的爪子说了什么？",
    "花园小屋的备用钥匙放在哪里？",
    "为什么教堂的合唱音乐会推迟了？",
    "冬に島へ渡る最終のフェリーは何時に出ますか。",
    "祖母のレモンケーキには卵がいくつ必要ですか。",
    "村の将棋大会で優勝したのは誰ですか。",
    "獣医は老犬の足について何と言いましたか。",
    "庭の小屋の合鍵はどこに置いてありますか。",
    "教会の合唱コンサートはなぜ延期されましたか。",
    "متى تغادر آخر عبّارة إلى الجزيرة في الشتاء؟",
    "كم بيضة تحتاج كعكة الليمون التي تصنعها خالتي؟",
    "من فاز ببطولة الشطرنج في قاعة القرية؟",
    "ماذا قال الطبيب البيطري عن ساق الحصان؟",
    "أين وضعنا مفتاح كوخ الحديقة الاحتياطي؟",
    "لماذا تأجل حفل الجوقة في الكنيسة؟",
    "Kışın adaya giden son vapur saat kaçta kalkıyor?",
    "Teyzemin limonlu keki için kaç yumurta gerekiyor?",
    "Köy salonundaki satranç turnuvasını kim kazandı?",
    "Veteriner yaşlı köpeğin patisi hakkında ne dedi?",
    "Bahçe kulübesinin yedek anahtarı nerede duruyor?",
    "Koronun kilisedeki konseri neden ertelendi?",
)

# With fewer passages the sample is noise, and the embedder's own numbers do.
FEWEST_PASSAGES = 16
OUTGROWN = 1.5  # a sample is due when there are so many times more passages, or fewer
# A third-party model takes a second for the questions, and may cost money.
FEWEST_FOR_EXTERNAL = 64
OUTGROWN_FOR_EXTERNAL = 3.0


def sample_chance(store: Store, embedder: Embedder, state: State, *, afresh: bool = False) -> None:
    """Take a new sample of chance if the memory, by its ``state``, has outgrown the last one.

    With ``afresh``, whether it has or not.
    """
    if not _is_due(state._replace(chance=None) if afresh else state, embedder):
        return
    try:
        vectors = embedder.embed_safely(QUESTIONS, "query")
        known = [vector for vector in vectors if vector is not None]
        if len(known) * 2 >= len(QUESTIONS):
            store.sample_chance(embedder.space, known)
    except (PlaitError, OSError, MemoryError):
        return  # what was written is written; the next write tries again


def _is_due(state: State, embedder: Embedder) -> bool:
    external = embedder.tuning.external
    fewest = FEWEST_FOR_EXTERNAL if external else FEWEST_PASSAGES
    factor = OUTGROWN_FOR_EXTERNAL if external else OUTGROWN
    passages, chance = state.passages, state.chance
    # While most vectors are pending, chance finds less than it will.
    if state.space != embedder.space or passages < fewest or state.pending * 2 > passages:
        return False
    return chance is None or not 1 / factor < passages / chance.passages < factor

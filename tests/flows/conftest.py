"""A part of the flows also runs on a memory in PostgreSQL, and must go the same way there."""

from typing import Any

import pytest

from plait import stores
from plait.protocols import Store
from plait.types.ids import is_address, new_id
from tests import servers

# By the name of the module. Tests that look into the file itself are not among them.
ON_POSTGRES: dict[str, tuple[str, ...]] = {
    "test_search": (
        "test_hybrid_finds_by_word_and_by_likeness",
        "test_an_embedder_that_is_down_leaves_the_words",
        "test_vectors_answer_by_the_embedder_that_made_them_until_a_reindex",
        "test_the_receipt_tells_what_the_answer_cost",
        "test_words_of_title_heading_and_tags_count_as_found",
        "test_min_score_tests_relevance_not_order",
        "test_vectors_alone_find_all_that_operators_match",
    ),
    "test_memory": (
        "test_text_without_a_key_is_an_observation_and_kept_once",
        "test_every_field_of_a_stored_text_is_kept",
        "test_an_absent_memory_answers_empty_and_creates_no_file",
        "test_things_are_got_by_id_prefix_key_and_passage",
        "test_the_timeline_is_newest_first_and_goes_on_from_its_cursor",
        "test_a_deleted_document_comes_back_by_undo",
        "test_a_document_deleted_twice_with_different_texts_keeps_both",
        "test_purge_clears_what_was_deleted_before",
        "test_duplicates_are_per_project",
    ),
    "test_observations": (
        "test_the_same_text_again_answers_with_what_it_matched",
        "test_a_text_that_says_almost_the_same_is_stored_and_flagged",
        "test_a_new_observation_of_a_topic_closes_the_old_one",
        "test_as_of_shows_what_held_then_and_the_boundary_belongs_to_the_new",
        "test_an_untrusted_text_never_closes_a_trusted_one",
        "test_an_agent_cannot_store_what_it_was_shown",
    ),
    "test_conversations": (
        "test_a_reply_is_found_through_its_question",
        "test_a_recalled_question_is_followed_by_its_reply",
        "test_messages_keep_their_order_role_and_turn",
        "test_a_whole_history_sent_again_adds_only_what_is_new",
        "test_single_messages_come_back_to_their_turn",
    ),
    "test_ingest": (
        "test_every_file_ends_in_the_report",
        "test_incremental_reads_nothing_that_surely_has_not_changed",
        "test_unchanged_passages_keep_their_ids_after_an_edit_elsewhere",
        "test_only_changed_passages_are_embedded_again",
        "test_undo_takes_back_the_latest_removal_first_whoever_removed",
    ),
    "test_misspelt": (
        "test_two_misspelt_words_are_corrected_each",
        "test_another_user_s_word_is_never_suggested",
        "test_a_quarantined_word_is_not_suggested",
        "test_words_that_follow_operators_are_corrected",
    ),
    "test_silence": (
        "test_nonsense_finds_nothing",
        "test_search_still_shows_what_is_weak_and_recall_when_asked",
        "test_a_reindex_takes_one_for_old_files",
    ),
    "test_missing_blanks": ("test_a_missing_blank_is_put_in_and_told",),
    "test_marking": (
        "test_a_status_lowers_a_score_and_not_the_relevance",
        "test_feedback_changes_a_score_is_explained_and_can_be_taken_back",
        "test_a_superseded_fact_is_history_of_the_other",
        "test_the_middle_of_a_history_leaves_it_to_the_others",
        "test_no_text_supersedes_itself",
        "test_only_one_fact_of_a_topic_can_hold",
        "test_the_facts_of_a_renamed_project_move_with_their_histories_and_come_back",
        "test_nothing_moves_to_where_one_of_its_kind_is",
        "test_nothing_of_a_user_leaves_a_scope_and_nothing_enters_one",
    ),
    "test_links": ("test_other_projects_and_quarantined_texts_are_not_linked",),
    "test_keeping": (
        "test_prune_moves_what_is_too_old_to_the_trash_and_undo_brings_it_back",
        "test_a_pinned_memory_is_recalled_first_whatever_is_asked",
    ),
    "test_retention": (
        "test_a_budget_of_documents_lets_the_least_used_go_then_the_oldest",
        "test_a_budget_of_megabytes_counts_the_bytes_of_texts",
        "test_what_was_lately_preferred_is_not_old_once_the_other_is_gone",
        "test_no_text_that_is_not_trusted_drives_out_the_persons",
        "test_what_nobody_changed_or_read_is_archived_and_later_deleted",
        "test_a_file_is_archived_then_removed_and_stays_out_until_it_is_written",
        "test_in_a_scope_only_its_own_documents_count",
    ),
    "test_linked_files": (
        "test_a_document_follows_the_link_that_its_file_left_behind",
        "test_a_file_of_another_type_that_is_a_document_is_read_again",
    ),
    "test_moved_files": ("test_files_that_exchange_their_names_keep_their_ids",),
    "test_trust": ("test_only_a_person_raises_the_trust_of_a_note",),
    "test_overview": ("test_each_section_has_its_lines",),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a chosen flow a second time."""
    chosen = ON_POSTGRES.get(metafunc.module.__name__.rpartition(".")[2], ())
    if metafunc.function.__name__ in chosen:
        metafunc.parametrize("place_of_memories", ["file", "postgres"], indirect=True)


@pytest.fixture(autouse=True)
def place_of_memories(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a test opens by a path in PostgreSQL, if it is to run there."""
    if getattr(request, "param", "file") == "file":
        return
    servers.need()
    open_store, exists, run = stores.open_store, stores.exists, new_id()

    def is_file(path: str) -> bool:
        return path != ":memory:" and not is_address(path)

    def opened(path: str, **options: Any) -> Store:
        place = servers.address(f"{run}{path[-150:].replace('/', '-')}") if is_file(path) else path
        return open_store(place, **options)

    monkeypatch.setattr(stores, "open_store", opened)
    monkeypatch.setattr(stores, "exists", lambda path: is_file(path) or exists(path))

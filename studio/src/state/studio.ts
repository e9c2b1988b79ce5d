// What the page knows: the text as typed, what it was read as, what is asked, and what is chosen.
//
// Typing changes `draft`; a draft that reads without error becomes `asked`, and everything that is
// about data follows `asked`. So a broken text leaves the last good answers on the screen.

import { batch, computed, effect, signal } from "@preact/signals";
import type {
  Attempt,
  Change,
  Hello,
  Language,
  Opened,
  Option,
  Problem,
  Query,
  Reading,
} from "../protocol";
import type { Transport } from "../transport/transport";
import type { Keeper, Kept, Theme } from "./keep";
import { Tasks } from "./tasks";

export interface Selection {
  key: number;
  label?: string | undefined;
  row?: number | undefined;
  match?: number | undefined;
  at?: number | undefined;
  /** Where that ends which begins at `at`, as at row `row`: shown as a whole. */
  until?: number | undefined;
  /** The step of the key's trace. */
  step?: number | undefined;
  /** The attempt that was clicked, to be told in full. */
  attempt?: Attempt | undefined;
  /** Bring it into view: not when it was clicked where it is seen. */
  reveal?: boolean | undefined;
}

export interface Path {
  key: number;
  at: number[];
  labels: string[];
  /** Where the row is that ended it. */
  stopped: number | null;
}

export type Tab = "matches" | "why" | "compare" | "cost" | "streams" | "plan";

const EMPTY: Query = { language: "pattern", text: "", options: {} };
const TYPING = 220; // ms of rest after which a text is read

export class Studio {
  readonly tasks: Tasks;
  readonly hello = signal<Hello | null>(null);
  readonly opened = signal<Opened | null>(null);
  readonly openProblem = signal<Problem | null>(null);

  readonly source = signal<string | null>(null);
  readonly draft = signal<Query>(EMPTY);
  /** What was typed for other sources. */
  readonly drafts = signal<Record<string, Query>>({});
  readonly shown = signal<Language>("pattern");
  readonly reading = signal<Reading | null>(null);
  readonly problem = signal<Problem | null>(null);
  readonly asked = signal<Query | null>(null);
  readonly live = signal(true);
  readonly pinned = signal<Query | null>(null);

  readonly selection = signal<Selection | null>(null);
  readonly expected = signal<{ key: number; rows: number[] } | null>(null);
  /** The rows of the match, or of the attempt as far as it got, that is told beside the lanes. */
  readonly path = signal<Path | null>(null);
  /** Matches that two versions differ in, by key, while these are compared. */
  readonly changes = signal<ReadonlyMap<number, readonly Change[]>>(new Map());
  readonly reason = signal<string | null>(null);
  readonly tab = signal<Tab>("matches");
  readonly theme = signal<Theme>("auto");
  readonly said = signal("");
  /** What the keys that were seen are called. */
  readonly labels = signal<ReadonlyMap<number, string>>(new Map());
  /** Counts up to ask all again: after a cancel, or when the server is back. */
  readonly round = signal(0);

  /** The text of the language that is shown: the draft, or the draft written in that language. */
  readonly written = computed<Query | null>(() => {
    const draft = this.draft.value;
    const shown = this.shown.value;
    if (draft.language === shown) return draft;
    return this.reading.value?.languages[shown]?.query ?? null;
  });
  readonly palette = computed(() => {
    const palette = new Map<string, number>();
    for (const { name, colour } of this.reading.value?.variables ?? []) palette.set(name, colour);
    return palette;
  });

  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly stops: (() => void)[] = [];

  constructor(
    readonly transport: Transport,
    private readonly keeper: Keeper,
  ) {
    this.tasks = new Tasks(transport);
  }

  async start(share: string | null): Promise<void> {
    const kept = this.keeper.load();
    this.restore(kept);
    const answer = await this.tasks.ask("hello", "hello", {});
    if (!answer) return;
    if ("problem" in answer) {
      this.openProblem.value = answer.problem;
      return;
    }
    const hello = answer.result;
    const given = hello.query ? JSON.stringify([hello.source, hello.query]) : "";
    const shared = share ? await this.tasks.ask("hello", "unshare", { text: share }) : null;
    batch(() => {
      this.hello.value = hello;
      this.openProblem.value = null;
      const known = (id: string | null | undefined): id is string =>
        hello.sources.some((one) => one.id === id);
      if (shared && "result" in shared) {
        this.take(shared.result.query);
        this.source.value = shared.result.source;
      } else if (hello.query && kept.given !== given) {
        this.take(hello.query);
        this.source.value = hello.source;
      } else if (known(kept.source)) {
        this.source.value = kept.source;
      } else {
        this.source.value = hello.source ?? hello.sources[0]?.id ?? null;
      }
    });
    if (shared && "problem" in shared) this.problem.value = shared.problem;
    this.stops.push(effect(() => this.keep(given)));
    await this.open(this.source.value, !this.draft.value.text);
  }

  stop(): void {
    for (const stop of this.stops) stop();
    clearTimeout(this.timer);
    for (const task of this.tasks.running.value) this.tasks.drop(task.slot);
  }

  /** Goes to another source: what was typed for this one is there again when one comes back. */
  async turn(source: string): Promise<void> {
    const before = this.source.value;
    const drafts = { ...this.drafts.value };
    if (before !== null && this.draft.value.text) drafts[before] = this.draft.value;
    this.drafts.value = drafts;
    const kept = drafts[source];
    if (kept) this.take(kept);
    await this.open(source, !kept);
  }

  /** Opens a source; with `fresh`, begins with its first query unless one has begun to type. */
  async open(source: string | null, fresh: boolean): Promise<void> {
    if (source === null) return;
    const before = this.draft.value;
    batch(() => {
      // A pinned version is of the columns of its own table.
      if (source !== this.source.value) this.pinned.value = null;
      this.source.value = source;
      this.selection.value = null;
      this.path.value = null;
      this.expected.value = null;
      this.asked.value = null;
      this.opened.value = null;
      this.reason.value = null;
    });
    const answer = await this.tasks.ask("open", "open", { source });
    if (!answer) return;
    if ("problem" in answer) {
      this.openProblem.value = answer.problem;
      return;
    }
    this.openProblem.value = null;
    this.opened.value = answer.result;
    const first = answer.result.queries[0];
    if (fresh && this.draft.value === before)
      this.take(first?.query ?? this.suggestion(answer.result));
    await this.read();
  }

  take(query: Query): void {
    batch(() => {
      this.draft.value = query;
      this.shown.value = query.language;
      this.selection.value = null;
      this.path.value = null;
      this.expected.value = null;
    });
    this.readSoon(0);
  }

  /** The user typed into the language that is shown. */
  type(text: string): void {
    const written = this.written.value;
    if (!written || written.text === text) return;
    this.draft.value = { ...written, text };
    this.readSoon();
  }

  option(name: Option, text: string): void {
    const written = this.written.value;
    if (!written || (written.options[name] ?? "") === text) return;
    this.draft.value = { ...written, options: { ...written.options, [name]: text } };
    this.readSoon();
  }

  readSoon(delay = TYPING): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.read(), delay);
  }

  async read(force = false): Promise<void> {
    const query = this.draft.value;
    const source = this.opened.value?.source ?? null;
    const answer = await this.tasks.ask("read", "read", { query, source });
    if (!answer || query !== this.draft.value) return;
    batch(() => {
      if ("problem" in answer) {
        this.problem.value = answer.problem;
        return;
      }
      this.problem.value = null;
      this.reading.value = answer.result;
      if (source !== null && (this.live.value || force || this.asked.value === null)) {
        this.ask(query, force);
      }
    });
  }

  choose(selection: Selection | null): void {
    const before = this.selection.value;
    batch(() => {
      this.selection.value = selection;
      // Steps of one attempt follow each other without a gap.
      if (selection?.key !== before?.key || selection?.row === undefined) this.path.value = null;
    });
  }

  /** Puts a row among those that were expected to match, or takes it out. */
  expect(key: number, row: number): void {
    const before = this.expected.value;
    const rows = before?.key === key ? before.rows : [];
    const next = rows.includes(row) ? rows.filter((one) => one !== row) : [...rows, row];
    this.expected.value = next.length ? { key, rows: next.sort((a, b) => a - b) } : null;
  }

  say(text: string): void {
    this.said.value = text;
  }

  private ask(query: Query, force: boolean): void {
    if (JSON.stringify(query) !== JSON.stringify(this.asked.value)) {
      this.asked.value = query;
      this.expected.value = null;
      const chosen = this.selection.value;
      if (chosen?.match !== undefined) this.selection.value = { ...chosen, match: undefined };
    } else if (force) {
      this.round.value += 1;
    }
  }

  private suggestion(opened: Opened): Query {
    return { ...EMPTY, options: { ...opened.suggested } };
  }

  private restore(kept: Partial<Kept>): void {
    batch(() => {
      if (kept.draft) this.draft.value = kept.draft;
      if (kept.drafts) this.drafts.value = kept.drafts;
      if (kept.shown) this.shown.value = kept.shown;
      if (kept.pinned) this.pinned.value = kept.pinned;
      if (kept.tab) this.tab.value = kept.tab as Tab;
      if (kept.theme) this.theme.value = kept.theme;
      if (kept.live !== undefined) this.live.value = kept.live;
    });
  }

  private keep(given: string): void {
    this.keeper.save({
      source: this.source.value,
      draft: this.draft.value,
      drafts: this.drafts.value,
      shown: this.shown.value,
      pinned: this.pinned.value,
      tab: this.tab.value,
      theme: this.theme.value,
      live: this.live.value,
      given,
    });
  }
}

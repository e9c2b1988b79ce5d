// What survives a reload: what was typed and chosen. Never a token, never data.
//
// A tab keeps its own work; a new tab begins with the work that was saved last.

import { type Language, OPTIONS, type Query } from "../protocol";

export interface Kept {
  source: string | null;
  draft: Query;
  drafts: Record<string, Query>;
  shown: Language;
  pinned: Query | null;
  tab: string;
  theme: Theme;
  live: boolean;
  /** What `q.studio(data)` gave when this was kept: a different one takes over. */
  given: string;
}

export type Theme = "auto" | "light" | "dark";

const NAME = "ensue-studio";
const LANGUAGES = ["pattern", "sase", "sql", "python"];

export interface Keeper {
  load(): Partial<Kept>;
  save(kept: Kept): void;
}

/** Keeps nothing: a notebook's cell says what it shows. */
export const forgetful: Keeper = { load: () => ({}), save: () => undefined };

export const browser: Keeper = {
  load() {
    for (const storage of [sessionStorage, localStorage]) {
      try {
        const text = storage.getItem(NAME);
        if (text) return checked(JSON.parse(text));
      } catch {
        // A storage that is off or holds something else: begin anew.
      }
    }
    return {};
  },
  save(kept) {
    for (const storage of [sessionStorage, localStorage]) {
      try {
        storage.setItem(NAME, JSON.stringify(kept));
      } catch {
        // Full or off: the page works all the same.
      }
    }
  },
};

function checked(kept: Record<string, unknown>): Partial<Kept> {
  const result: Partial<Kept> = {};
  const draft = asQuery(kept.draft);
  if (draft) result.draft = draft;
  result.drafts = {};
  for (const [source, one] of Object.entries(kept.drafts ?? {})) {
    const query = asQuery(one);
    if (query) result.drafts[source] = query;
  }
  result.pinned = asQuery(kept.pinned);
  if (typeof kept.source === "string") result.source = kept.source;
  if (typeof kept.tab === "string") result.tab = kept.tab;
  if (typeof kept.given === "string") result.given = kept.given;
  if (typeof kept.live === "boolean") result.live = kept.live;
  if (kept.theme === "light" || kept.theme === "dark") result.theme = kept.theme;
  if (LANGUAGES.includes(kept.shown as string)) result.shown = kept.shown as Language;
  return result;
}

function asQuery(value: unknown): Query | null {
  if (typeof value !== "object" || value === null) return null;
  const { language, text, options } = value as Record<string, unknown>;
  if (!LANGUAGES.includes(language as string) || typeof text !== "string") return null;
  const known: Query["options"] = {};
  for (const name of OPTIONS) {
    const one = (options as Record<string, unknown> | undefined)?.[name];
    if (typeof one === "string") known[name] = one;
  }
  return { language: language as Language, text, options: known };
}

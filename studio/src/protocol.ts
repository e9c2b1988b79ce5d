// The messages of PROTOCOL.md, as types. Nothing here runs.

export type Cell = null | boolean | number | string;

export interface Place {
  field: string;
  line: number;
  column: number;
  length: number;
  offset: number;
}

export interface Problem {
  class: string;
  message: string;
  remedy: string;
  place: Place | null;
}

export interface Progress {
  done: number;
  total: number | null;
  text: string;
}

export type Language = "pattern" | "sase" | "sql" | "python";

export const OPTIONS = [
  "types",
  "define",
  "without",
  "subset",
  "partition_by",
  "order_by",
  "within",
  "select",
  "after_match",
  "measures",
  "missing",
] as const;
export type Option = (typeof OPTIONS)[number];
export type Options = Partial<Record<Option, string>>;

export interface Query {
  language: Language;
  text: string;
  options: Options;
}

export interface Hello {
  version: string;
  protocol: number;
  languages: { id: Language; name: string; example: Query }[];
  sources: SourceInfo[];
  query: Query | null;
  source: string | null;
  settings: Record<string, number>;
  functions: { name: string; signature: string; text: string }[];
  streams: boolean;
}

export interface SourceInfo {
  id: string;
  name: string;
  kind: "sample" | "table" | "file" | "spark";
  text: string;
}

export interface Column {
  name: string;
  type: string;
  class: "number" | "text" | "time" | "boolean" | "other";
}

export interface Opened {
  source: string;
  name: string;
  rows: number | null;
  columns: Column[];
  suggested: { partition_by?: string; order_by?: string; types?: string };
  queries: { title: string; text: string; query: Query }[];
  sampled: { rows: number; of: number; text: string } | null;
  notes: string[];
}

export interface GraphState {
  id: string;
  label: string;
  text: string;
  start: boolean;
  accept: boolean;
  note: string;
  condition: string;
  colour: number | null;
}

export interface GraphArc {
  source: number;
  target: number;
  text: string;
  label: string;
  condition: string;
  faint: boolean;
}

export interface Graph {
  title: string;
  notes: string[];
  ordered: boolean;
  states: GraphState[];
  arcs: GraphArc[];
  parts: Graph[];
}

export interface Variable {
  name: string;
  condition: string;
  negative: boolean;
  colour: number;
}

export type Written =
  | { query: Query; refused?: undefined }
  | { refused: string; query?: undefined };

export interface Reading {
  variables: Variable[];
  columns: string[];
  automaton: Graph | null;
  languages: Partial<Record<Language, Written>>;
  explain: string;
  semantics: "row" | "event";
  notes: string[];
}

export interface Completions {
  from: number;
  to: number;
  options: {
    label: string;
    type: "column" | "variable" | "function" | "keyword";
    detail: string;
    apply: string;
  }[];
}

export interface Ran {
  matches: number;
  columns: { name: string; type: string }[];
  rows: Cell[][];
  keys: number;
  keys_matched: number;
  rows_read: number;
  seconds: number;
  bytes: number;
  cut: string | null;
  warnings: string[];
}

export interface BestAttempt {
  reason: string;
  variable: string | null;
  matched: string[];
  at: number | null;
  row: number | null;
  start: number | null;
  text: string;
}

export interface KeyInfo {
  key: number;
  label: string;
  rows: number;
  from: number | null;
  to: number | null;
  matches: number;
  best: BestAttempt | null;
}

export interface Keys {
  total: number;
  keys: KeyInfo[];
}

export interface Buckets {
  at: number[];
  rows: number[];
  counts: Record<string, number[]>;
  matches: number[];
}

export interface Points {
  row: number[];
  at: number[];
  label: (number | null)[];
  fits: number[][];
}

export interface LaneMatch {
  number: number;
  first: number;
  last: number;
  from: number;
  to: number;
  rows: number[];
  labels: number[];
  measures: Record<string, Cell>;
}

export interface Lane {
  key: number;
  label: string;
  rows: number;
  buckets: Buckets | null;
  points: Points | null;
  matches: LaneMatch[];
  cut: string | null;
}

export type Axis = "time" | "number" | "rank";

export interface Lanes {
  axis: Axis;
  from: number | null;
  to: number | null;
  far: boolean;
  variables: string[];
  telling: number[];
  lanes: Lane[];
  cut: string | null;
}

export interface RowInfo {
  row: number;
  at: number;
  values: [string, Cell][];
  variables: {
    name: string;
    holds: boolean | null;
    parts: { text: string; values: string; holds: boolean | null }[];
  }[];
  matches: number[];
}

export interface MatchInfo {
  key: number;
  number: number;
  rows: { row: number; label: string; at: number; values: [string, Cell][] }[];
  measures: [string, Cell][];
}

export interface Attempt {
  key: number;
  label: string;
  start: number | null;
  start_row: number | null;
  row: number | null;
  at: number | null;
  matched: string[];
  variable: string | null;
  reason: string | null;
  text: string | null;
  matches: number;
}

export interface Whys {
  total: number;
  reasons: [string, number][];
  attempts: Attempt[];
}

export interface Funnel {
  steps: { place: number; variable: string; reached: number; stopped: [string, number][] }[];
  matched: number;
}

export interface Nearest {
  misses: {
    key: number;
    label: string;
    start_row: number | null;
    start: number | null;
    row: number | null;
    at: number | null;
    lacks: number;
    missing: string[];
    matched: string[];
    variable: string | null;
    reason: string | null;
    text: string | null;
  }[];
}

export interface TraceStep {
  step: number;
  row: number;
  at: number | null;
  start: number | null;
  action: string;
  variable: string | null;
  held: boolean | null;
  text: string | null;
  reason: string | null;
  matched: string[];
  rows: number[];
  places: string[];
  partials: number;
}

export interface Trace {
  total: number;
  chosen: number | null;
  cut: string | null;
  steps: TraceStep[];
}

export interface Change {
  op: "+" | "-";
  key: number;
  label: string;
  from: number;
  to: number;
  rows: number[];
  labels: string[];
}

export interface Compared {
  appear: number;
  disappear: number;
  stay: number;
  changes: Change[];
  cut: string | null;
}

export interface Cost {
  rows: number;
  rows_per_second: number | null;
  matches: number;
  partial_matches: number | null;
  bytes: number;
  stages: { name: string; seconds: number }[];
  recall: number | null;
  kept: number | null;
  explain: string;
  notes: string[];
}

export interface Stream {
  id: string;
  name: string;
  status: string;
  rows_in_per_second: number;
  rows_out_per_second: number;
  trigger_ms: number | null;
  watermark: Cell;
  late: number;
  state_rows: number;
  state_bytes: number;
  matches: Record<string, number>;
  history: [number, number, number][];
}

interface Asked {
  source: string;
  query: Query;
}

/** What each method takes and gives. */
export interface Methods {
  hello: { takes: Record<string, never>; gives: Hello };
  open: { takes: { source: string }; gives: Opened };
  read: { takes: { query: Query; source: string | null }; gives: Reading };
  complete: {
    takes: { query: Query; field: string; offset: number; source: string | null };
    gives: Completions;
  };
  run: { takes: Asked & { limit: number }; gives: Ran };
  keys: {
    takes: Asked & {
      search: string;
      offset: number;
      limit: number;
      sort: string;
      reason: string | null;
    };
    gives: Keys;
  };
  lanes: {
    takes: Asked & { keys: number[]; from: number | null; to: number | null; width: number };
    gives: Lanes;
  };
  row: { takes: Asked & { key: number; row: number }; gives: RowInfo };
  match: { takes: Asked & { key: number; number: number }; gives: MatchInfo };
  why: {
    takes: Asked & {
      key: number | null;
      per: "partition" | "start";
      reason: string | null;
      offset: number;
      limit: number;
    };
    gives: Whys;
  };
  expected: { takes: Asked & { key: number; rows: number[] }; gives: Attempt };
  funnel: { takes: Asked; gives: Funnel };
  nearest: { takes: Asked & { n: number }; gives: Nearest };
  trace: {
    takes: Asked & {
      key: number;
      from: number;
      row: number | null;
      start: number | null;
      variable: string | null;
      limit: number;
    };
    gives: Trace;
  };
  compare: { takes: { source: string; a: Query; b: Query; limit: number }; gives: Compared };
  cost: { takes: Asked & { budget: string | null }; gives: Cost };
  streams: { takes: Record<string, never>; gives: { streams: Stream[] } };
  copy: { takes: Asked & { as: "python" | "sql" | "feed" | "link" }; gives: { text: string } };
  unshare: { takes: { text: string }; gives: { source: string; query: Query } };
}

export type Method = keyof Methods;

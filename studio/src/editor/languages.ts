// Colours of the languages: words, texts, numbers, remarks. What the text means, the session says.

import { StreamLanguage, type StringStream } from "@codemirror/language";
import type { Language } from "../protocol";

const CONDITION = `and or not is null in between like true false case when then else end cast as
  interval prev next first last classifier match_number running final count sum avg min max`;
const WORDS: Record<Language, string> = {
  pattern: `${CONDITION} permute within strict any`,
  sase: `${CONDITION} event seq pattern where partition by within return having skip till
    match strict contiguity`,
  sql: `${CONDITION} select from where group order by having limit with match_recognize partition
    measures one all row rows per match omit empty matches with unmatched after skip past to pattern
    permute subset define distinct on join left inner outer cross union asc desc nulls within`,
  python: `import from as def return lambda for in if else and or not none true false is`,
};

const REMARKS: Record<Language, RegExp> = {
  pattern: /^(#|--).*/,
  sase: /^(#|--).*/,
  sql: /^--.*/,
  python: /^#.*/,
};

function tokens(language: Language) {
  const words = new Set(WORDS[language].split(/\s+/));
  const remark = REMARKS[language];
  return StreamLanguage.define({
    name: language,
    token(stream: StringStream) {
      if (stream.eatSpace()) return null;
      if (stream.match(remark)) return "comment";
      if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
      if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
      if (stream.match(/^`[^`]*`?/)) return "string";
      if (stream.match(/^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/)) return "number";
      if (stream.match(/^[A-Za-z_]\w*/)) {
        return words.has(stream.current().toLowerCase()) ? "keyword" : "variableName";
      }
      if (stream.match(/^(?:->>|->|<=|>=|<>|!=|==|[-+*/%=<>|?!^$&])/)) return "operator";
      if (stream.match(/^[()[\]{},.:;]/)) return "punctuation";
      stream.next();
      return null;
    },
    languageData: { commentTokens: { line: language === "python" ? "#" : "--" } },
  });
}

const made = new Map<Language, StreamLanguage<unknown>>();

export function languageOf(language: Language): StreamLanguage<unknown> {
  let one = made.get(language);
  if (!one) {
    one = tokens(language);
    made.set(language, one);
  }
  return one;
}

// Package strategy implements the search for the place in a file that an edit means, and the
// change there. A wrong edit that nobody notices is far worse than a refusal, so everything here
// refuses in case of doubt.
//
// [Apply] works in these steps:
//
//  1. The file is converted to LF space ([file]): all lines end with a line feed, and offsets can
//     be mapped back to the file's own bytes.
//  2. The strategies in [Strategies] are tried in order. They return sites, which are ranges of
//     the file and not strings to search for again. The first strategy with a site decides. If it
//     has several sites, the edit is ambiguous and the search stops.
//  3. The splice is a three-way merge: old_string is the base, the file's text is ours, and
//     new_string is theirs. Lines common to old and new keep the file's bytes. The others come
//     from new, with the file's indentation.
//
// So a difference between old_string and the file that a strategy tolerates does not get into the
// file by accident.
package strategy

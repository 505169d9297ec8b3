// Package strategy finds the place in a file that an edit means, and changes it. An unnoticed wrong edit is far worse
// than a refusal, so in case of doubt the package refuses the edit.
//
// [Apply] works in these steps:
//
//  1. The file is converted to LF space ([file]). All lines then end with a line feed, and offsets can be converted
//     back to offsets in the file's own bytes.
//  2. The strategies in [Strategies] are tried in order. They return sites, which are ranges of the file. The first
//     strategy with a site decides. If it has several sites, the edit is ambiguous and the search stops.
//  3. The change is a three-way merge: old_string is the base, the file's text is "ours", and new_string is "theirs".
//     Lines that old and new have in common keep the file's bytes. The other lines come from new, with the file's
//     indentation.
//
// A strategy can tolerate differences between old_string and the file. The merge makes sure that such a difference
// does not get into the file by accident.
package strategy

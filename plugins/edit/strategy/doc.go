// Package strategy implements the search for the place in a file that an edit means, and the
// change there. A wrong edit that nobody notices is far worse than a refusal, so everything here
// refuses in case of doubt.
//
// [Apply] works in these steps:
//
//  1. The file is seen in LF space ([file]): lines end with a line feed, however they
//     end in the file, and offsets lead back to the file's own bytes.
//  2. The strategies of the table [Strategies] are asked in order. They give sites:
//     ranges of the file, never strings to search for again. The first that has a site
//     decides; with more than one the edit is ambiguous, and the chain stops.
//  3. The splice is three-way: old_string is the base, the file's text is ours, and
//     new_string is theirs. Lines that old and new have in common keep the file's bytes;
//     the others come from new, indented as the file is.
//
// So whatever made a strategy forgive a difference between old_string and the file, that
// difference does not get into the file by itself.
package strategy

// Package text implements text as files hold it: its encoding, its line endings, and how to tell
// it from binary data.
//
// [Decode] turns the bytes of a file into a [Text], and [Text.Encode] stores changed content the
// same way. Nothing is approximated: encoding the decoded content returns the same bytes, and what
// an encoding cannot hold is refused.
package text

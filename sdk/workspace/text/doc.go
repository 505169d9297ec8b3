// Package text decodes the text of files. It detects encodings, line endings and binary data.
//
// [Decode] detects the encoding and converts the bytes of a file to a [Text]. [Text.Encode] encodes changed content in
// the same encoding. Encoding unchanged content returns the same bytes. Characters that the encoding cannot represent
// are an error.
package text

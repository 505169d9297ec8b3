package workspace

import (
	"bytes"
	"unicode/utf8"
)

// sniffLength is how much of a file is looked at to tell text from binary data.
const sniffLength = 8 << 10

// control are the bytes that text has next to none of. Tab, line feed, form feed,
// carriage return, backspace and escape (terminal colours) are not among them.
var control = func() (c [256]uint8) {
	for b := range 0x20 {
		c[b] = 1
	}
	for _, b := range "\b\t\n\f\r\x1b" {
		c[b] = 0
	}
	c[0x7f] = 1
	return c
}()

// Binary reports whether data, the beginning of a file or all of it, is something
// other than text: the first 8 KB have a NUL byte or a high share of control
// characters. UTF-16 with a byte order mark is text.
func Binary(data []byte) bool {
	if bytes.HasPrefix(data, []byte(bomUTF16LE)) || bytes.HasPrefix(data, []byte(bomUTF16BE)) {
		return bytes.HasPrefix(data, []byte(bomUTF32LE))
	}
	head := data[:min(len(data), sniffLength)]
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	n := 0
	for _, b := range head {
		n += int(control[b])
	}
	if n == 0 {
		return false
	}
	// Compressed data without a NUL byte has some 10 % of them, and is not UTF-8.
	if validHead(head) {
		return n*10 > len(head)
	}
	return n*50 > len(head)
}

// validHead reports whether head is UTF-8, but for a character cut off at its end.
func validHead(head []byte) bool {
	for range utf8.UTFMax {
		if utf8.Valid(head) {
			return true
		}
		if len(head) == 0 {
			return false
		}
		head = head[:len(head)-1]
	}
	return false
}

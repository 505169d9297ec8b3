package text

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// sniffLength is the number of bytes that Binary examines to distinguish text from binary data.
const sniffLength = 8 << 10

// harmless is the set of control characters that occur in text: backspace, tab, line feed, form feed, carriage return
// and escape. Escape occurs in terminal colors.
const harmless = 1<<'\b' | 1<<'\t' | 1<<'\n' | 1<<'\f' | 1<<'\r' | 1<<'\x1b'

// countControl counts the control characters below the space character that are not in harmless. It examines eight
// bytes at once, because most groups of eight bytes contain no such character.
func countControl(data []byte) (n int) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(data) >= 8; data = data[8:] {
		x := binary.LittleEndian.Uint64(data)
		// In below, a byte has its high bit set if the same byte of x is less than 0x20.
		below := (each*(0x7f+0x20) - x&^high) & ^x & high
		for ; below != 0; below &= below - 1 {
			b := data[bits.TrailingZeros64(below)/8]
			n += 1 &^ (harmless >> b)
		}
	}
	for _, b := range data {
		if b < 0x20 {
			n += 1 &^ (harmless >> b)
		}
	}
	return n
}

// Binary reports whether data is binary. The argument is the content of a file or the beginning of the content.
// Content is binary if its first 8 KB contain a NUL byte or a high share of control characters. UTF-16 with a byte
// order mark is not binary.
func Binary(data []byte) bool {
	if bytes.HasPrefix(data, []byte(bomUTF16LE)) || bytes.HasPrefix(data, []byte(bomUTF16BE)) {
		return bytes.HasPrefix(data, []byte(bomUTF32LE))
	}
	head := data[:min(len(data), sniffLength)]
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	n := countControl(head)
	if n == 0 {
		return false
	}
	// Compressed data without a NUL byte contains about 10 % control characters and is not valid UTF-8.
	if validHead(head) {
		return n*10 > len(head)
	}
	return n*50 > len(head)
}

// validHead reports whether head is valid UTF-8. The last character of head is allowed to be incomplete.
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

// Package fingerprint recognizes copies of a program by their content. [Of] returns the same text for a program and its
// copies, even if a copy contains appended data or lacks symbols. A modified program has a different text.
package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// Head is the number of leading bytes of a file that a fingerprint needs.
const Head = 4096

const (
	headerSize  = 64 // size of the header of a 64-bit ELF file
	segmentSize = 56
	maxNotes    = 4096
)

// Of returns the fingerprint of a program of the given size in bytes. The argument "head" contains the first [Head]
// bytes of the file, or the whole file if it is shorter. If the linker stored a build ID, the fingerprint is the build
// ID. The result is empty if the file is not a program.
func Of(f io.ReaderAt, head []byte, size int64) string {
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
	case !bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return ""
	default:
		if id := buildID(f, head); id != "" {
			return id
		}
	}
	return fmt.Sprintf("%d %x", size, sha256.Sum256(head[:min(len(head), Head)]))
}

// buildID returns the build ID of a 64-bit ELF file, or "" for other files.
func buildID(f io.ReaderAt, head []byte) string {
	if len(head) < headerSize || elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 ||
		elf.Data(head[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return ""
	}
	order := binary.LittleEndian
	from, count := order.Uint64(head[32:]), int(order.Uint16(head[56:]))
	if order.Uint16(head[54:]) != segmentSize || from > Head {
		return ""
	}
	for i := range count {
		at := int(from) + i*segmentSize
		if at+segmentSize > len(head) {
			break
		}
		segment := head[at:]
		if elf.ProgType(order.Uint32(segment)) != elf.PT_NOTE {
			continue
		}
		offset, size := order.Uint64(segment[8:]), min(order.Uint64(segment[32:]), maxNotes)
		var notes []byte
		if offset+size <= uint64(len(head)) && offset < uint64(len(head)) {
			notes = head[offset : offset+size]
		} else if notes = make([]byte, size); offset > 1<<62 {
			continue
		} else if _, err := f.ReadAt(notes, int64(offset)); err != nil {
			continue
		}
		if id := note(notes, order.Uint64(segment[48:])); id != "" {
			return id
		}
	}
	return ""
}

// These are the types of notes with a build ID.
const (
	gnuID = 3
	goID  = 4
)

// note returns the build ID from the notes of a segment. The argument "align" is the alignment of the notes.
func note(notes []byte, align uint64) string {
	order, step := binary.LittleEndian, uint64(4)
	if align == 8 {
		step = 8
	}
	up := func(n uint64) uint64 { return (n + step - 1) / step * step }
	for len(notes) >= 12 {
		names, size, kind := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:])), order.Uint32(notes[8:])
		begin := up(12 + names)
		end := begin + size
		if end > uint64(len(notes)) {
			return ""
		}
		name := string(bytes.TrimRight(notes[12:12+names], "\x00"))
		if size > 0 && (name == "GNU" && kind == gnuID || name == "Go" && kind == goID) {
			return name + " " + hex.EncodeToString(notes[begin:end])
		}
		notes = notes[min(up(end), uint64(len(notes))):]
	}
	return ""
}

// Package gitstate reads what git stores of a repository's state: the index, packed refs, and the objects of commits.
//
// [Open] returns the objects of repositories, about which [Objects] asks git. Everything else is computed without git.
package gitstate

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"toolhost.dev/branch/internal/filetree"
)

// maxIndex is the maximum size of a git index that is compared, in bytes.
const maxIndex = 256 << 20

// IsIndex reports whether a path is the index of a repository.
func IsIndex(path string) bool { return strings.HasSuffix("/"+path, "/.git/index") }

// SameIndex reports whether two git indexes have the same entries. It ignores the times of files in the index, because
// git updates them when it only reads a repository.
func SameIndex(a, b string) bool {
	x, y := IndexSum(a), IndexSum(b)
	return x != "" && x == y
}

// IndexSum returns a checksum of the entries of an index. It returns "" if it does not know the format of the index.
func IndexSum(path string) string {
	entries, ok := indexEntries(path)
	if !ok {
		return ""
	}
	sum := sha256.New()
	for _, e := range entries {
		_, _ = sum.Write(binary.BigEndian.AppendUint32(nil, uint32(len(e))))
		_, _ = sum.Write(e)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// indexEntries returns the entries of an index: modes, objects, flags and names, without the times and sizes of files.
// It returns false for an unknown format.
func indexEntries(path string) (out [][]byte, ok bool) {
	text, err := filetree.ReadSmall(path, maxIndex)
	if err != nil || len(text) < 12 || string(text[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(text[4:]), binary.BigEndian.Uint32(text[8:])
	if version != 2 && version != 3 {
		return nil, false
	}
	const fixed, modeAt, sizeAt, flagsAt = 62, 24, 36, 60
	for rest := text[12:]; count > 0; count-- {
		if len(rest) < fixed {
			return nil, false
		}
		header := fixed
		if binary.BigEndian.Uint16(rest[flagsAt:])&0x4000 != 0 {
			header += 2
		}
		if len(rest) < header {
			return nil, false
		}
		end := bytes.IndexByte(rest[header:], 0)
		if end < 0 {
			return nil, false
		}
		entry := slices.Concat(rest[modeAt:modeAt+4], rest[sizeAt+4:header], rest[header:header+end])
		out = append(out, entry)
		next := (header + end + 8) / 8 * 8
		if next > len(rest) {
			return nil, false
		}
		rest = rest[next:]
	}
	return out, true
}

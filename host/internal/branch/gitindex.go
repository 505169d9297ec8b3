package branch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// maxIndex is the maximum size of an index of git that is compared, in bytes.
const maxIndex = 256 << 20

// isIndex reports whether a path is the index of a repository.
func isIndex(path string) bool { return strings.HasSuffix("/"+path, "/.git/index") }

// sameIndex reports whether two indexes of git have the same entries. Git stores the times of files in its index and
// renews them when it only looks at a repository.
func sameIndex(a, b string) bool {
	x, y := indexSum(a), indexSum(b)
	return x != "" && x == y
}

// indexSum returns a sum of the entries of an index, or "" if the format is not known.
func indexSum(path string) string {
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

// indexEntries returns the entries of an index without the states of files: modes, objects, flags and names. It returns
// false for a format that it does not know.
func indexEntries(path string) (out [][]byte, ok bool) {
	text, err := readSmall(path, maxIndex)
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

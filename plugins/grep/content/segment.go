package content

import (
	"bytes"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

const rowBytes = rowWords * 8

// segment is a stretch of text with its index.
type segment struct {
	data  []byte // nil: only the index is kept
	size  int
	used  int
	dead  int
	taken int64 // of the budget
	// texts are in the order of their places; nil: removed.
	texts []*Text
	// ends are where the blocks end; first are the first texts in them.
	ends, first []int
	rows        []row // of all groups, one after the other
	raw         []byte
	// partial are the blocks of lines that do not go into one; special those with a character that is
	// the same as an ASCII letter when upper and lower case are.
	partial, special []uint64
	last             filter // of the last block
}

var errBudget = errors.New("content: the budget is used up")

// newSegment makes a segment with room for a text of a size. The memory is taken from
// the system as it is used.
func newSegment(n int, keep bool, b *Budget) (*segment, error) {
	size, groups := max(segmentSize, n+1), (blocksFor(n)+groupSize-1)/groupSize
	g := &segment{size: size}
	var err error
	if g.taken = int64(groups) * rows * rowBytes; !b.Take(g.taken) {
		return nil, errBudget
	}
	if g.raw, err = allocate(groups * rows * rowBytes); err == nil && keep {
		g.data, err = allocate(size)
	}
	if err != nil {
		g.free(b)
		return nil, err
	}
	g.rows = unsafe.Slice((*row)(unsafe.Pointer(unsafe.SliceData(g.raw))), groups*rows) // #nosec G103 -- pages, which are aligned
	g.partial, g.special = make([]uint64, groups*rowWords), make([]uint64, groups*rowWords)
	return g, nil
}

// blocksFor returns the most blocks that a text takes: two that follow each other are
// larger than one block can be.
func blocksFor(n int) int { return n/(blockSize/2) + 2 }

func allocate(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func (g *segment) free(b *Budget) {
	for _, m := range [][]byte{g.raw, g.data} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	b.Give(g.taken)
	*g = segment{}
}

// strip gives up the text and keeps the index.
func (g *segment) strip(b *Budget) {
	_ = unix.Munmap(g.data)
	index := int64(len(g.raw))
	b.Give(g.taken - index)
	g.data, g.taken = nil, index
}

// fits reports whether there is room for a text.
func (g *segment) fits(n int) bool {
	return g.used+n+1 <= g.size && len(g.ends)+blocksFor(n) <= len(g.rows)/rows*groupSize
}

func (g *segment) take(b *Budget, n int) bool {
	if g.data == nil {
		return true
	}
	if !b.Take(int64(n + 1)) {
		return false
	}
	g.taken += int64(n + 1)
	return true
}

// start returns where a block begins.
func (g *segment) start(block int) int {
	if block == 0 {
		return 0
	}
	return g.ends[block-1]
}

// add adds a text for which there is room.
func (g *segment) add(owner uint32, text []byte) *Text {
	t := &Text{Owner: owner, seg: g, off: g.used, n: len(text), index: len(g.texts)}
	if g.data != nil {
		copy(g.data[g.used:], text)
		g.data[g.used+len(text)] = '\n'
	}
	isSpecial := special(text)
	// The last block is gone on with while it is small.
	if n := len(g.ends); n == 0 || g.used-g.start(n-1)+len(text) > blockSize {
		g.begin()
	}
	t.first = len(g.ends) - 1
	within := false // the last block ended within a line
	for rest := text; ; g.begin() {
		block := len(g.ends) - 1
		piece := firstPiece(rest)
		marked := piece
		if within { // a literal may lie on both sides of the cut
			at := len(text) - len(rest)
			marked = text[at-min(at, maxLiteral):][:min(at, maxLiteral)+len(piece)]
		}
		g.last.mark(g.rows[block/groupSize*rows:][:rows], block%groupSize, marked)
		if isSpecial {
			g.special[block/64] |= 1 << (block % 64)
		}
		cut := len(piece) < len(rest) && piece[len(piece)-1] != '\n'
		if within || cut {
			g.partial[block/64] |= 1 << (block % 64)
		}
		within = cut
		g.used += len(piece)
		g.ends[block] = g.used
		if rest = rest[len(piece):]; len(rest) == 0 {
			break
		}
	}
	t.last = len(g.ends) - 1
	g.used++
	g.ends[t.last] = g.used
	g.texts = append(g.texts, t)
	return t
}

// firstPiece returns the beginning of a text that goes into one block.
func firstPiece(text []byte) []byte {
	if len(text) <= blockSize {
		return text
	}
	if i := bytes.LastIndexByte(text[:blockSize], '\n'); i >= 0 {
		return text[:i+1]
	}
	return text[:blockSize]
}

// special reports whether a text has one of the characters that are the same as s and k
// when upper and lower case are.
func special(text []byte) bool {
	return bytes.Contains(text, []byte("\u017f")) || bytes.Contains(text, []byte("\u212a"))
}

// begin begins a block.
func (g *segment) begin() {
	g.ends = append(g.ends, g.used)
	g.first = append(g.first, len(g.texts))
	g.last = filter{}
}

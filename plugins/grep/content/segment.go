package content

import (
	"bytes"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

const rowBytes = rowWords * 8

// segment is a memory area that contains texts and their index.
type segment struct {
	data  []byte // nil if the segment holds only the index
	size  int
	used  int
	dead  int
	taken int64 // number of bytes taken from the budget
	// texts is sorted by the offset of the texts. A removed text leaves a nil element.
	texts []*Text
	// ends[b] is the end offset of block b. first[b] is the index of the first text in block b.
	ends, first []int
	rows        []row // filter rows of all groups in order
	raw         []byte
	// The bitmap "partial" marks the blocks that contain a fragment of a line too long for one block. The bitmap
	// "special" marks the blocks with a non-ASCII character that matches an ASCII letter if case is ignored.
	partial, special []uint64
	last             filter // filter of the last block
}

var errBudget = errors.New("content: the budget is used up")

// newSegment returns a segment with room for a text of n bytes. The operating system allocates the memory on first use.
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
	g.rows = unsafe.Slice((*row)(unsafe.Pointer(unsafe.SliceData(g.raw))), groups*rows) // #nosec G103 -- the memory consists of pages, so it is aligned
	g.partial, g.special = make([]uint64, groups*rowWords), make([]uint64, groups*rowWords)
	return g, nil
}

// blocksFor returns the maximum number of blocks of a text with n bytes. The result is based on the fact that two
// consecutive blocks together exceed blockSize.
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

// strip frees the memory of the texts but keeps the index.
func (g *segment) strip(b *Budget) {
	_ = unix.Munmap(g.data)
	index := int64(len(g.raw))
	b.Give(g.taken - index)
	g.data, g.taken = nil, index
}

// fits reports whether the segment has enough free space for a text of n bytes.
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

// start returns the offset at which the block with the given number begins.
func (g *segment) start(block int) int {
	if block == 0 {
		return 0
	}
	return g.ends[block-1]
}

// add adds a text. The caller must first call fits.
func (g *segment) add(owner uint32, text []byte) *Text {
	t := &Text{Owner: owner, seg: g, off: g.used, n: len(text), index: len(g.texts)}
	if g.data != nil {
		copy(g.data[g.used:], text)
		g.data[g.used+len(text)] = '\n'
	}
	isSpecial := special(text)
	// Add the text to the last block if the block stays small enough.
	if n := len(g.ends); n == 0 || g.used-g.start(n-1)+len(text) > blockSize {
		g.begin()
	}
	t.first = len(g.ends) - 1
	within := false // true if the last block ended in the middle of a line
	for rest := text; ; g.begin() {
		block := len(g.ends) - 1
		piece := firstPiece(rest)
		marked := piece
		if within { // a literal can span the previous block and this block
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

// firstPiece returns the first part of a text, to be stored in one block.
func firstPiece(text []byte) []byte {
	if len(text) <= blockSize {
		return text
	}
	if i := bytes.LastIndexByte(text[:blockSize], '\n'); i >= 0 {
		return text[:i+1]
	}
	return text[:blockSize]
}

// special reports whether a text contains U+017F or U+212A. If case is ignored, these characters match the
// letters s and k.
func special(text []byte) bool {
	return bytes.Contains(text, []byte("\u017f")) || bytes.Contains(text, []byte("\u212a"))
}

// begin starts a new block.
func (g *segment) begin() {
	g.ends = append(g.ends, g.used)
	g.first = append(g.first, len(g.texts))
	g.last = filter{}
}

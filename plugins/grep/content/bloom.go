package content

// Each block of text has a Bloom filter of its trigrams in lower case. The filters of a group of blocks are stored
// transposed: a row holds, for one hash, the bits of all blocks in the group. Therefore one lookup of a trigram covers
// the whole group.
const (
	hashBits  = 12
	rows      = 1 << hashBits
	groupSize = 512 // number of blocks in a group
	rowWords  = groupSize / 64
)

// row holds one bit for each block of a group. All bits belong to the same hash.
type row [rowWords]uint64

func hash(v uint32) uint32 { return (v * 0x9E3779B1) >> (32 - hashBits) }

var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i) // #nosec G115 -- below 256
		if 'A' <= i && i <= 'Z' {
			t[i] |= 0x20
		}
	}
	return t
}()

// filter is a copy of the Bloom filter of one block.
type filter [rows / 64]uint64

// mark adds the trigrams of a text to the filter of block n in a group.
func (f *filter) mark(g []row, n int, text []byte) {
	if len(text) < 3 {
		return
	}
	word, bit := n/64, uint64(1)<<(n%64)
	v := uint32(lower[text[0]])<<8 | uint32(lower[text[1]])<<16
	for _, c := range text[2:] {
		v = v>>8 | uint32(lower[c])<<16
		h := hash(v)
		if f[h>>6]&(1<<(h&63)) == 0 {
			f[h>>6] |= 1 << (h & 63)
			g[h][word] |= bit
		}
	}
}

// maxLiteral is the maximum length of a literal to look up. Longer literals are shortened.
const maxLiteral = 64

// hashes returns the hashes of the trigrams in a literal.
func hashes(literal string) []uint32 {
	literal = literal[:min(len(literal), maxLiteral)]
	var out []uint32
	for i := 0; i+3 <= len(literal); i++ {
		out = append(out,
			hash(uint32(lower[literal[i]])|uint32(lower[literal[i+1]])<<8|uint32(lower[literal[i+2]])<<16))
	}
	return out
}

// having returns the blocks of a group whose filters contain all hashes.
func having(g []row, hashes []uint32) row {
	r := g[hashes[0]]
	for _, h := range hashes[1:] {
		left := uint64(0)
		for i := range r {
			r[i] &= g[h][i]
			left |= r[i]
		}
		if left == 0 {
			break
		}
	}
	return r
}

package content

// Each block of text has a Bloom filter of the trigrams of its lower-case bytes. The filters of a group of blocks are
// stored transposed: a row holds the bits of all blocks for one hash. So one lookup of a trigram covers all blocks of
// the group.
const (
	hashBits  = 12
	rows      = 1 << hashBits
	groupSize = 512 // blocks
	rowWords  = groupSize / 64
)

// row holds the bits of a group's blocks for one hash.
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

// filter holds the bits of one block that are already set in its group.
type filter [rows / 64]uint64

// mark adds the trigrams of a text to block number n of a group.
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

// maxLiteral is the number of bytes of a literal that are looked up.
const maxLiteral = 64

// hashes returns the hashes of a literal's trigrams.
func hashes(literal string) []uint32 {
	literal = literal[:min(len(literal), maxLiteral)]
	var out []uint32
	for i := 0; i+3 <= len(literal); i++ {
		out = append(out, hash(uint32(lower[literal[i]])|uint32(lower[literal[i+1]])<<8|uint32(lower[literal[i+2]])<<16))
	}
	return out
}

// having returns the blocks of a group that may contain all trigrams with these hashes.
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

//go:build !amd64

package bytepair

// Fast is documented in index_amd64.go.
const Fast = false

func index([]byte, int, byte, byte, byte, byte) int {
	panic("bytepair: not supported on this processor")
}

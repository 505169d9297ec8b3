//go:build !amd64

package bytepair

// Fast is documented for amd64.
const Fast = false

func index([]byte, int, byte, byte, byte, byte) int {
	panic("bytepair: not supported on this processor")
}

package message

import (
	"bytes"
	"sync"
)

// Batch collects the answers to a batch, which are sent as one array. It is safe for concurrent use.
type Batch struct {
	mu      sync.Mutex
	waits   int // number of messages that are not done
	answers [][]byte
}

// NewBatch returns the answers to a batch of n messages.
func NewBatch(n int) *Batch { return &Batch{waits: n} }

// Done adds the answer to one of the messages. A nil answer means that the message has none. Done copies the answer.
// The last call returns the line with all answers, or nil without answers.
func (b *Batch) Done(answer []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil {
		b.answers = append(b.answers, bytes.Clone(bytes.TrimSpace(answer)))
	}
	if b.waits--; b.waits > 0 || len(b.answers) == 0 {
		return nil
	}
	return append(append([]byte{'['}, bytes.Join(b.answers, []byte{','})...), "]\n"...)
}

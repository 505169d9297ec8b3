package capture

import (
	"fmt"
	"sync"
	"time"

	"toolhost.dev/sdk/spill"
)

const (
	// livePause is the minimum time between two chunks of the live view.
	livePause = 50 * time.Millisecond
	// liveRoom limits the bytes that wait for the next chunk. If more bytes arrive, the oldest bytes are skipped.
	liveRoom = 64 << 10
)

// Live forwards a stream in batches while the stream is written. If output arrives too fast, Live skips bytes and
// reports how many it skipped. A write never waits for the receiver.
type Live struct {
	send func([]byte)

	mu      sync.Mutex
	pending []byte
	chunk   []byte // result of the last call of take
	skipped int64
	sending bool // true if the sending goroutine runs or is about to start
	closed  chan struct{}
	done    sync.WaitGroup
}

// NewLive returns a live view that passes each batch to the function "send". The function is allowed to block. It must
// not keep its argument.
func NewLive(send func([]byte)) *Live { return &Live{send: send, closed: make(chan struct{})} }

// Write implements io.Writer. It never fails or blocks. It must not be called after Close.
func (l *Live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	if over := len(l.pending) + n - liveRoom; over > 0 {
		l.skipped += int64(over)
		if over >= len(l.pending) {
			p = p[over-len(l.pending):]
			l.pending = l.pending[:0]
		} else {
			l.pending = append(l.pending[:0], l.pending[over:]...)
		}
	}
	l.pending = append(l.pending, p...)
	if !l.sending {
		l.sending = true
		l.done.Go(l.run)
	}
	return n, nil
}

// run sends chunks until nothing is pending.
func (l *Live) run() {
	pause := time.NewTimer(livePause / 5) // the first chunk is sent after a shorter pause
	defer pause.Stop()
	for {
		last := false
		select {
		case <-pause.C:
		case <-l.closed:
			last = true
		}
		l.mu.Lock()
		chunk := l.take(last)
		if len(chunk) == 0 {
			l.sending = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.send(chunk)
		pause.Reset(livePause)
	}
}

// take removes the pending bytes and returns them. If last is false, an incomplete rune at the end stays pending.
// The result is valid until the next call of take.
func (l *Live) take(last bool) []byte {
	keep := 0
	if !last {
		keep = spill.PartialRune(l.pending)
	}
	cut := len(l.pending) - keep
	if cut == 0 {
		return nil
	}
	l.chunk = l.chunk[:0]
	if l.skipped > 0 {
		l.chunk = fmt.Appendf(l.chunk, "\n[… %d bytes skipped in the live view …]\n", l.skipped)
		l.skipped = 0
	}
	l.chunk = append(l.chunk, l.pending[:cut]...)
	l.pending = append(l.pending[:0], l.pending[cut:]...)
	return l.chunk
}

// Close sends the pending bytes and then returns.
func (l *Live) Close() {
	close(l.closed)
	l.done.Wait()
	if chunk := l.take(true); len(chunk) > 0 {
		l.send(chunk)
	}
}

package api

import (
	"context"
	"testing"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// TestAsksOfOthers checks that a principal with the maximum number of asks does not prevent the asks of another
// principal.
func TestAsksOfOthers(t *testing.T) {
	q := NewAsks(1 << 40)
	ctx, cancel := context.WithCancel(t.Context())
	waits := func(name string) int {
		q.mu.Lock()
		defer q.mu.Unlock()
		n := 0
		for _, a := range q.waiting {
			if a.Principal == name {
				n++
			}
		}
		return n
	}
	answers := make(chan tool.Answer)
	ask := func(name string) {
		c := q.Client(&host.Principal{Name: name})
		go func() {
			answer, _ := c.Ask(ctx, tool.Ask{Question: &tool.Question{Text: "?"}})
			answers <- answer
		}()
	}
	for range maxAsks + 1 {
		ask("a")
	}
	if answer := <-answers; answer.Outcome != tool.NobodyToAsk || waits("a") > maxAsks {
		t.Errorf("%+v", answer)
	}
	ask("b")
	for waits("b") == 0 {
		select {
		case answer := <-answers:
			t.Fatalf("%+v", answer)
		default:
		}
	}
	cancel()
	for range maxAsks + 1 {
		<-answers
	}
}

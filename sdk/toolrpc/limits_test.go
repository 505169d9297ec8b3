package toolrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// sizes is a peer that records the sizes of what it receives.
type sizes struct {
	recorder
	asks int
}

func (s *sizes) Progress(title string, m map[string]any) {
	s.note("title %d, metadata %d", len(title), len(fmt.Sprint(m)))
}

func (s *sizes) Output(_ tool.Stream, b []byte) { s.note("output %d", len(b)) }

func (s *sizes) Log(m tool.LogMessage) { s.note("log %d %d", len(m.Logger), len(m.Data)) }

func (s *sizes) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	s.asks++
	return tool.Answer{Outcome: tool.Accepted}, nil
}

// TestEventsAreLimited sends large events, as a plugin without the SDK can. The host must receive short ones, and
// nobody must be asked a question that nobody can read.
func TestEventsAreLimited(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	answers := make(chan *toolpb.Answer, 3)
	c := connect(t, raw{call: func(s respond) error {
		object := []byte(`{"text":"` + long + `"}`)
		asks := []*toolpb.Ask{
			{Id: 1, Ask: &toolpb.Ask_Question{Question: &toolpb.Question{Text: long}}},
			{Id: 2, Ask: &toolpb.Ask_Permission{Permission: &toolpb.Permission{Kind: "k", Title: "t", Patterns: []string{long}}}},
			{Id: 3, Ask: &toolpb.Ask_Question{Question: &toolpb.Question{Text: "short"}}},
		}
		messages := []*toolpb.CallResponse{
			{Message: &toolpb.CallResponse_Progress{Progress: &toolpb.Progress{Title: long, Metadata: object}}},
			{Message: &toolpb.CallResponse_Output{Output: &toolpb.Output{Chunk: []byte(long[:maxChunk+1])}}},
			{Message: &toolpb.CallResponse_Log{Log: &toolpb.Log{Level: "info", Logger: long, Data: object}}},
		}
		for _, a := range asks {
			messages = append(messages, &toolpb.CallResponse{Message: &toolpb.CallResponse_Ask{Ask: a}})
		}
		for _, m := range messages {
			if err := s.Send(m); err != nil {
				return err
			}
		}
		for range asks {
			m, err := s.Recv()
			if err != nil {
				return err
			}
			answers <- m.GetAnswer()
		}
		return s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Result{Result: &toolpb.Result{Output: "done", Metadata: object}}})
	}})
	peer := new(sizes)
	res := c.Call(t.Context(), &tool.Call{Tool: "x", Arguments: json.RawMessage(`{}`)}, peer)
	if res.Error != nil || res.Output != "done" || len(fmt.Sprint(res.Metadata)) > 200 {
		t.Errorf("%v, %.200q, %.200v", res.Error, res.Output, res.Metadata)
	}
	for range 3 {
		a := <-answers
		if short := a.GetAskId() == 3; short != (a.GetOutcome() == toolpb.Answer_OUTCOME_ACCEPTED) || short == strings.Contains(a.GetMessage(), "nobody can read more") {
			t.Errorf("%v", a)
		}
	}
	want := fmt.Sprintf("title %d, metadata 76|output %d|output 1|log %d 30", maxNote+len("…"), maxChunk, maxNote+len("…"))
	if got := strings.Join(peer.events, "|"); got != want || peer.asks != 1 {
		t.Errorf("%d asks, %s\nwant %s", peer.asks, got, want)
	}
}

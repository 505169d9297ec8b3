package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// cancelLimit is the maximal time until the result of a canceled call.
const cancelLimit = 3 * time.Second

// talk describes the host's part in a call.
type talk struct {
	// cancel is the time from the start to a Cancel; 0 means none.
	cancel time.Duration
	reason toolpb.Cancel_Reason
	// extra is a message to send after the start, or nil.
	extra *toolpb.CallRequest
	// reset is the time from the start to a reset of the stream; 0 means none.
	reset time.Duration
	// started, if not nil, is closed at the first event or at the end.
	started chan struct{}
}

// spoken is the outcome of a call.
type spoken struct {
	result *toolpb.Result
	// err is set if the stream ended other than with the status OK.
	err error
	// late means that there was no result in time.
	late bool
	// rules are the violated rules of the protocol.
	rules []string
	// took is the time from the Cancel to the result, or from the start if there was no Cancel.
	took time.Duration
}

// failure returns an error if the call has no result.
func (x *spoken) failure(p *process) error {
	switch {
	case x.result == nil && p.dying():
		return fmt.Errorf("the plugin ended during the call: %s", p.ended())
	case x.late:
		return fmt.Errorf("no result came within %s", x.took.Round(100*time.Millisecond))
	case x.result == nil && x.err == nil:
		return errors.New("the stream ended without a result")
	case x.result == nil:
		return fmt.Errorf("the stream ended with the status %s instead of a result: %s", status.Code(x.err), status.Convert(x.err).Message())
	}
	return nil
}

// kind returns the error kind of the result.
func (x *spoken) kind() toolpb.Kind { return x.result.GetError().GetKind() }

// say makes one call.
func (s *suite) say(parent context.Context, p *process, start *toolpb.Start, t talk) *spoken {
	ctx, cut := context.WithCancel(parent)
	defer cut()
	x := &spoken{}
	began := time.Now()
	limit := s.opts.Patience
	if t.cancel > 0 {
		limit = t.cancel + cancelLimit
	}
	timer := time.AfterFunc(limit, cut)
	defer timer.Stop()
	defer func() {
		if x.result == nil && ctx.Err() != nil && parent.Err() == nil && t.reset == 0 {
			x.late = true
		}
		if x.took == 0 {
			x.took = time.Since(began)
		}
		x.took -= t.cancel
		if t.started != nil {
			select {
			case <-t.started:
			default:
				close(t.started)
			}
		}
	}()
	stream, err := p.rpc.Call(ctx)
	if err != nil {
		x.err = err
		return x
	}
	var sending sync.Mutex
	send := func(m *toolpb.CallRequest) {
		sending.Lock()
		defer sending.Unlock()
		_ = stream.Send(m) // Recv returns the error
	}
	send(&toolpb.CallRequest{Message: &toolpb.CallRequest_Start{Start: start}})
	if t.extra != nil {
		send(t.extra)
	}
	if t.cancel > 0 {
		c := time.AfterFunc(t.cancel, func() {
			send(&toolpb.CallRequest{Message: &toolpb.CallRequest_Cancel{Cancel: &toolpb.Cancel{Reason: t.reason}}})
		})
		defer c.Stop()
	}
	if t.reset > 0 {
		c := time.AfterFunc(t.reset, cut)
		defer c.Stop()
	}
	asked := make(map[uint32]bool)
	for {
		m, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				x.err = err
			}
			if x.result != nil && x.err != nil {
				if ctx.Err() != nil {
					x.rule("the plugin did not end the stream after its Result")
				} else {
					x.rule("the stream ended with the status %s after a Result; a failure is a Result with an error, and the status is OK", status.Code(err))
				}
			}
			return x
		}
		if t.started != nil && x.result == nil {
			select {
			case <-t.started:
			default:
				close(t.started)
			}
		}
		if x.result != nil {
			x.rule("%T came after the Result", m.GetMessage())
			return x
		}
		switch m := m.GetMessage().(type) {
		case *toolpb.CallResponse_Result:
			x.result, x.took = m.Result, time.Since(began)
			timer.Reset(2 * time.Second) // for the end of the stream
		case *toolpb.CallResponse_Progress:
			if b := m.Progress.GetMetadata(); len(b) > 0 && json.Unmarshal(b, new(map[string]any)) != nil {
				x.rule("the metadata of a Progress is not a JSON object: %.100q", b)
			}
		case *toolpb.CallResponse_Output:
			if m.Output.GetStream() == toolpb.Output_STREAM_UNSPECIFIED {
				x.rule("an Output does not name its stream")
			}
		case *toolpb.CallResponse_Ask:
			id := m.Ask.GetId()
			if id == 0 || asked[id] {
				x.rule("an Ask has the id %d; ids are unique within a call, and not 0", id)
			}
			asked[id] = true
			send(&toolpb.CallRequest{Message: &toolpb.CallRequest_Answer{Answer: &toolpb.Answer{AskId: id, Outcome: toolpb.Answer_OUTCOME_UNAVAILABLE, Message: "no user can be asked"}}})
		case *toolpb.CallResponse_FileStateQuery:
			send(&toolpb.CallRequest{Message: &toolpb.CallRequest_FileStates{FileStates: &toolpb.FileStates{QueryId: m.FileStateQuery.GetId()}}})
		default:
			x.rule("the plugin sent a message without a known event")
		}
	}
}

func (x *spoken) rule(format string, a ...any) { x.rules = append(x.rules, fmt.Sprintf(format, a...)) }

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

// cancelLimit is the time within which a canceled call must return its result.
const cancelLimit = 3 * time.Second

// talk describes the messages and actions of the host during a call.
type talk struct {
	// cancel is the time from the start of the call to the Cancel message. Zero means that the host sends no Cancel
	// message.
	cancel time.Duration
	reason toolpb.Cancel_Reason
	// extra is a message that is sent after the start of the call. It can be nil.
	extra *toolpb.CallRequest
	// reset is the time from the start of the call to a reset of the stream. Zero means that the host does not reset
	// the stream.
	reset time.Duration
	// large means that the message is large. A slow machine needs time for such a message. The call therefore has the
	// full time limit of Options.Patience, even if an earlier call had no result in time.
	large bool
	// started is closed at the first event or at the end of the call. It can be nil.
	started chan struct{}
}

// spoken is the outcome of one call.
type spoken struct {
	result *toolpb.Result
	// err is the error with which the stream ended. It is nil if the gRPC status was OK.
	err error
	// late is true if the result did not arrive in time.
	late bool
	// rules lists the rules of the protocol that the plugin violated.
	rules []string
	// shown lists the texts that a user interface shows while the call runs: the titles and metadata of progress
	// reports.
	shown []string
	// took is the time from the Cancel message to the result. If no Cancel was sent, it is the time from the start
	// of the call.
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
		return errors.New("the stream ended without a result; send a Result before the end of the stream, also if the tool fails")
	case x.result == nil:
		return fmt.Errorf("the stream ended with the status %s instead of a result: %s", status.Code(x.err), status.Convert(x.err).Message())
	}
	return nil
}

// kind returns the kind of the error in the result.
func (x *spoken) kind() toolpb.Kind { return x.result.GetError().GetKind() }

// say makes a call and returns the outcome of the call.
func (s *suite) say(parent context.Context, p *process, start *toolpb.Start, t talk) *spoken {
	ctx, cut := context.WithCancel(parent)
	defer cut()
	x := &spoken{}
	began := time.Now()
	limit := s.patience()
	switch {
	case t.cancel > 0:
		limit = t.cancel + cancelLimit
	case t.large:
		limit = s.opts.Patience
	}
	timer := time.AfterFunc(limit, cut)
	defer timer.Stop()
	defer func() {
		if x.result == nil && ctx.Err() != nil && parent.Err() == nil && t.reset == 0 {
			x.late = true
			s.slow.Store(true)
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
		_ = stream.Send(m) // ignore the error, because Recv returns it
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
			timer.Reset(2 * time.Second) // limits the time until the end of the stream
		case *toolpb.CallResponse_Progress:
			x.shown = append(x.shown, m.Progress.GetTitle(), string(m.Progress.GetMetadata()))
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
			send(&toolpb.CallRequest{
				Message: &toolpb.CallRequest_Answer{
					Answer: &toolpb.Answer{
						AskId: id, Outcome: toolpb.Answer_OUTCOME_UNAVAILABLE, Message: "no user can be asked",
					},
				},
			})
		case *toolpb.CallResponse_FileStateQuery:
			send(&toolpb.CallRequest{
				Message: &toolpb.CallRequest_FileStates{
					FileStates: &toolpb.FileStates{QueryId: m.FileStateQuery.GetId()},
				},
			})
		default:
			x.rule("the plugin sent a message without a known event")
		}
	}
}

func (x *spoken) rule(format string, a ...any) { x.rules = append(x.rules, fmt.Sprintf(format, a...)) }

package toolrpc

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

const (
	// largeSize is the size above which a plugin announces a result, in bytes. A smaller result fits into the window of
	// a stream, so it is in the host's memory even if the host does not read it.
	largeSize = window
	// sendTime is how long a plugin can take to send a result for which it has room.
	sendTime = 30 * time.Second
)

// sendParts announces a large result to the host. If the host accepts it, sendParts sends it in parts, between which
// the messages of other calls pass. It returns the message that ends the call.
func (p *hostPeer) sendParts(r *toolpb.Result, size int) *toolpb.Result {
	// The context of the call does not matter: the host answers when the call ends.
	m, err := p.exchange(context.Background(), func(id uint32) (*toolpb.CallResponse, error) {
		ask := &toolpb.Ask{Id: id, Ask: &toolpb.Ask_Announce{Announce: &toolpb.Announce{Bytes: int64(size)}}}
		return &toolpb.CallResponse{Message: &toolpb.CallResponse_Ask{Ask: ask}}, nil
	})
	if err == nil && m.GetAnswer().GetOutcome() != toolpb.Answer_OUTCOME_ACCEPTED {
		err = errors.New(m.GetAnswer().GetMessage())
	}
	var encoded []byte
	if err == nil {
		encoded, err = proto.Marshal(r)
	}
	if err != nil {
		return resultToPB(tool.Failed(tool.Errorf(tool.ExecutionFailed, "The result of %d bytes was not sent: %v", size, err)))
	}
	for part := range slices.Chunk(encoded, maxChunk) {
		if p.send(&toolpb.CallResponse{Message: &toolpb.CallResponse_ResultPart{ResultPart: part}}) != nil {
			break // nobody waits for the result
		}
	}
	return new(toolpb.Result)
}

// largeResult is a result that the plugin announced. A nil largeResult means that it announced none.
type largeResult struct {
	refused *tool.Error // nil if the host has room
	size    int
	parts   []byte
	timer   *time.Timer
	late    atomic.Bool // whether the plugin did not send the result within sendTime
}

var errUnannounced = status.Error(codes.Internal, "The plugin sent more of its result than it announced. Report this to the plugin's author.")

// announced waits until the host has room for a result, and answers the plugin. Meanwhile, it leaves later messages of
// the call unread.
func (c *conversation) announced(id uint32, size int64) error {
	if c.large != nil || size <= 0 {
		return status.Error(codes.Internal, "The plugin announced two results of one call, or one without a size. Report this to the plugin's author.")
	}
	l := new(largeResult)
	c.large = l
	answer := tool.Answer{Outcome: tool.Accepted}
	if l.refused = c.receive(size); l.refused != nil {
		answer = tool.Answer{Outcome: tool.Declined, Message: l.refused.Message}
	} else {
		l.size = int(size)
		l.timer = time.AfterFunc(sendTime, func() {
			l.late.Store(true)
			c.line.cut()
		})
	}
	_ = c.line.send(&toolpb.CallRequest{Message: &toolpb.CallRequest_Answer{Answer: answerToPB(id, answer)}}) // ignore the error: recv returns the reason
	return nil
}

// receive takes room for a result.
func (c *conversation) receive(size int64) *tool.Error {
	if size > MaxMessageSize {
		return tooLarge("the tool", int(size)).From(tool.SourcePlugin)
	}
	r, ok := c.peer.(tool.Receiver)
	if !ok {
		return nil
	}
	if err := r.Receive(c.ctx, size); err != nil {
		return tool.AsError(err).From(tool.SourceHost)
	}
	return nil
}

// add adds a part.
func (l *largeResult) add(part []byte) error {
	if l == nil || len(l.parts)+len(part) > l.size {
		return errUnannounced
	}
	if l.parts == nil {
		l.parts = make([]byte, 0, l.size)
	}
	l.parts = append(l.parts, part...)
	return nil
}

// or returns the announced result if all of its parts arrived, and otherwise the last message of the call.
func (l *largeResult) or(last *toolpb.Result) *tool.Result {
	switch {
	case l == nil:
	case l.refused != nil:
		return tool.Failed(l.refused)
	case len(l.parts) == l.size:
		r := new(toolpb.Result)
		if err := proto.Unmarshal(l.parts, r); err != nil {
			return tool.Failed(tool.Errorf(tool.Internal, "The plugin sent a result that cannot be decoded: %v. Report this to the plugin's author.", err).From(tool.SourcePlugin))
		}
		l.parts = nil
		return resultFromPB(r)
	}
	return resultFromPB(last)
}

// explain returns the reason why a stream ended.
func (l *largeResult) explain(err error) error {
	if l != nil && l.late.Load() {
		return status.Errorf(codes.Internal, "The plugin announced a result of %d bytes and did not send it within %v. Report this to the plugin's author.", l.size, sendTime)
	}
	return err
}

// stop ends the time limit.
func (l *largeResult) stop() {
	if l != nil && l.timer != nil {
		l.timer.Stop()
	}
}

package hop_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// node asks the gateway a question on each connection, until it gets the answer.
type node struct {
	fleetpb.UnimplementedNodeServiceServer
	asked chan struct{} // one value for each question that reached the gateway

	mu  sync.Mutex
	got []string // the messages on the last connection
}

func (n *node) Forward(s fleetpb.NodeService_ForwardServer) error {
	n.mu.Lock()
	n.got = nil
	n.mu.Unlock()
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		kind := "start"
		if m.GetAnswer() != nil {
			kind = "answer"
		}
		n.mu.Lock()
		n.got = append(n.got, kind)
		ends := len(n.got) == 2
		n.mu.Unlock()
		if ends {
			return s.Send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Result{Result: &fleetpb.Result{}}})
		}
		ask, err := toolrpc.EncodeAsk(tool.Ask{Question: &tool.Question{Text: "?"}})
		if err == nil {
			err = s.Send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Ask{Ask: &fleetpb.Ask{Id: 1, Ask: ask}}})
		}
		if err != nil {
			return err
		}
		if _, first := <-n.asked; first { // the connection is lost before the answer
			return errors.New("lost")
		}
	}
}

// person answers when the test allows it.
type person struct {
	hop.Silent
	asked, answers, answered chan struct{}
}

func (p person) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	p.asked <- struct{}{}
	<-p.answers
	defer close(p.answered)
	return tool.Answer{Outcome: tool.Accepted}, nil
}

// slow lets a person answer while it sends the first message.
type slow struct {
	hop.Sender
	person person
}

func (s slow) Send(m *fleetpb.ForwardRequest) error {
	if m.GetStart() != nil {
		close(s.person.answers)
		<-s.person.answered
		for range 1000 { // the answer is on its way
			runtime.Gosched()
		}
	}
	return s.Sender.Send(m)
}

// TestAnswerDuringReconnection checks that an answer that a person gives while the gateway comes back arrives after the
// first message of the new connection. Otherwise, the node would refuse the connection.
func TestAnswerDuringReconnection(t *testing.T) {
	n := &node{asked: make(chan struct{})}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	ok(t, err)
	server := grpc.NewServer()
	fleetpb.RegisterNodeServiceServer(server, n)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	ok(t, err)
	defer conn.Close()

	p := person{asked: n.asked, answers: make(chan struct{}), answered: make(chan struct{})}
	call := hop.NewCall(p, func() {})
	connect := func() hop.Sender {
		s, err := fleetpb.NewNodeServiceClient(conn).Forward(t.Context())
		ok(t, err)
		return s
	}
	s := connect()
	ok(t, call.Use(s, new(fleetpb.Start)))
	if m, err := call.Receive(t.Context(), s); err == nil {
		t.Fatal("the connection is not lost", m)
	}
	close(n.asked)
	s = slow{connect(), p}
	ok(t, call.Use(s, new(fleetpb.Start)))
	m, err := call.Receive(t.Context(), s)
	if err != nil || m.GetResult() == nil {
		t.Error(m, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.got, []string{"start", "answer"}) {
		t.Errorf("the node got %q", n.got)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestHolds checks how long a call is held.
func TestHolds(t *testing.T) {
	caller := func() (*hop.Caller, context.Context) {
		ctx, cancel := context.WithCancelCause(context.Background())
		return hop.NewCaller(&fleetpb.Start{Hold: "h"}, cancel), ctx
	}
	synctest.Test(t, func(t *testing.T) {
		h := hop.NewHolds()
		c, ctx := caller()
		if added := h.Add("east", "h", c, func() { <-ctx.Done() }); added != c {
			t.Error("a new call is known")
		}
		if h.Find("west", "h") != nil {
			t.Error("another node has the call")
		}
		// The gateway comes back before the node notices that the first connection is lost. It sends the call again,
		// because it does not know that the call arrived.
		again, _ := caller()
		if known := h.Add("east", "h", again, func() { t.Error("the call runs twice") }); known != c {
			t.Error("the call is held twice")
		}
		h.Lost("east", "h")
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Error("the call ended although its gateway is connected")
		}
		h.Lost("east", "h")
		time.Sleep(hop.Patience)
		if h.Find("east", "h") != c || ctx.Err() != nil {
			t.Error("the call ended while its gateway tries to come back")
		}
		h.Lost("east", "h")
		time.Sleep(time.Hour)
		if ctx.Err() == nil || h.Find("east", "h") != nil {
			t.Error("the call is held although its gateway does not come back")
		}
	})
}

// TestHoldsClose checks that the end of a node waits for the calls that it cancels, but not for ever.
func TestHoldsClose(t *testing.T) {
	for _, tc := range []struct{ needs, waits time.Duration }{{time.Second, time.Second}, {time.Hour, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			h := hop.NewHolds()
			ctx, cancel := context.WithCancelCause(context.Background())
			c := hop.NewCaller(&fleetpb.Start{Hold: "h"}, cancel)
			h.Add("east", "h", c, func() {
				<-ctx.Done()
				time.Sleep(tc.needs)
			})
			h.Lost("east", "h")
			began := time.Now()
			h.Close(time.Minute)
			if waited := time.Since(began); waited != tc.waits {
				t.Errorf("a call that needs %s: waited for %s", tc.needs, waited)
			}
			if h.Add("east", "h", c, func() { t.Error("a call begins") }) != nil {
				t.Error("a call is added after the end")
			}
			time.Sleep(2 * time.Hour) // the call has ended
		})
	}
}

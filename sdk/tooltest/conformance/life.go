package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// slack is added to the time limits of the protocol, because a busy machine is slow.
const slack = 2 * time.Second

func checkCancel(ctx context.Context, s *suite, v *verdict) {
	s.canceled(ctx, v, toolpb.Cancel_REASON_CANCELED)
}

func checkDeadline(ctx context.Context, s *suite, v *verdict) {
	s.canceled(ctx, v, toolpb.Cancel_REASON_DEADLINE)
}

func (s *suite) canceled(ctx context.Context, v *verdict, reason toolpb.Cancel_Reason) {
	c, long := s.long()
	if !long {
		c = s.probe()
	}
	s.withProcess(ctx, v, func(p *process) {
		start := s.startOf(c)
		after := 300 * time.Millisecond
		if !long {
			after = time.Millisecond
		}
		if reason == toolpb.Cancel_REASON_DEADLINE {
			start.TimeoutMs = after.Milliseconds()
		}
		x := s.say(ctx, p, start, talk{cancel: after, reason: reason})
		if err := x.failure(p); err != nil {
			v.failf("%s: %v", &c, err)
			return
		}
		if long && x.took < -after/2 {
			v.failf("%s is marked as long but ended before it was canceled: %s", &c, outcome(x.result))
		}
		for _, rule := range x.rules {
			v.failf("%s: %s", &c, rule)
		}
		if !long && len(v.failed) == 0 {
			v.skip("checked only with a short call: add a call that takes long ({\"tool\": …, \"arguments\": …, \"long\": true})")
		}
	})
}

func checkReset(ctx context.Context, s *suite, v *verdict) {
	s.withProcess(ctx, v, func(p *process) {
		probe := s.probe()
		all := []call{probe}
		if long, ok := s.long(); ok {
			all = append(all, long)
		}
		for _, c := range all {
			for _, after := range []time.Duration{time.Microsecond, 500 * time.Millisecond} {
				s.say(ctx, p, s.startOf(c), talk{reset: after})
			}
		}
		for range 3 { // repeat the check, because a wrong reaction of the plugin can be late
			if p.dying() {
				break
			}
		}
		if err := s.say(ctx, p, s.startOf(probe), talk{}).failure(p); err != nil {
			v.failf("after calls that the host abandoned, %s: %v", &probe, err)
		}
	})
}

func checkShared(ctx context.Context, s *suite, v *verdict) {
	if !slices.Contains(s.desc.Capabilities, tool.CapabilityCalls) {
		v.skip("the plugin does not have the capability calls")
		return
	}
	s.withProcess(ctx, v, func(p *process) {
		ctx, cancel := context.WithTimeout(ctx, s.patience())
		defer cancel()
		stream, err := p.rpc.Calls(ctx)
		if err != nil {
			v.failf("%v", s.rpcError("Calls", err, p))
			return
		}
		c := s.probe()
		send := func(id uint64, m *toolpb.CallRequest) {
			_ = stream.Send(&toolpb.CallsRequest{Call: id, Message: m}) // ignore the error, because Recv returns it
		}
		const n = 20
		// The plugin must ignore a message for an unknown call.
		send(99, &toolpb.CallRequest{Message: &toolpb.CallRequest_Cancel{Cancel: &toolpb.Cancel{}}})
		for id := uint64(1); id <= n; id++ {
			send(id, &toolpb.CallRequest{Message: &toolpb.CallRequest_Start{Start: s.startOf(c)}})
		}
		ended := make(map[uint64]bool)
		for len(ended) < n+1 {
			m, err := stream.Recv()
			if err != nil {
				v.failf("after %d results of %d: %v", len(ended), n+1, s.rpcError("Calls", err, p))
				return
			}
			id := m.GetCall()
			switch m := m.GetMessage().GetMessage().(type) {
			case *toolpb.CallResponse_Result:
				if id < 1 || id > n && len(ended) < n || id > n+1 || ended[id] {
					v.failf("the plugin sent a result for call %d, which is not running", id)
					return
				}
				if ended[id] = true; len(ended) == n { // do not close the stream, because the next call uses it
					send(n+1, &toolpb.CallRequest{Message: &toolpb.CallRequest_Start{Start: s.startOf(c)}})
				}
				send(id, &toolpb.CallRequest{Message: &toolpb.CallRequest_Cancel{Cancel: &toolpb.Cancel{}}}) // the plugin must ignore this message, because the call has ended
			case *toolpb.CallResponse_Ask:
				send(id, &toolpb.CallRequest{
					Message: &toolpb.CallRequest_Answer{
						Answer: &toolpb.Answer{AskId: m.Ask.GetId(), Outcome: toolpb.Answer_OUTCOME_UNAVAILABLE},
					},
				})
			case *toolpb.CallResponse_FileStateQuery:
				send(id, &toolpb.CallRequest{
					Message: &toolpb.CallRequest_FileStates{
						FileStates: &toolpb.FileStates{QueryId: m.FileStateQuery.GetId()},
					},
				})
			}
		}
		for range 4 { // hosts keep several streams open
			if _, err := p.rpc.Calls(ctx); err != nil {
				v.failf("beside the shared stream: %v", s.rpcError("Calls", err, p))
				return
			}
		}
		if err := s.say(ctx, p, s.startOf(c), talk{}).failure(p); err != nil {
			v.failf("a call on a stream of its own, beside five shared streams: %v", err)
		}
	})
}

func checkDrain(ctx context.Context, s *suite, v *verdict) {
	s.withProcess(ctx, v, func(p *process) {
		const grace = 2 * time.Second
		long, isLong := s.long()
		var running sync.WaitGroup
		defer running.Wait()
		callCtx, stop := context.WithTimeout(ctx, grace+cancelLimit+slack+s.patience())
		defer stop()
		var x *spoken
		if isLong {
			started := make(chan struct{})
			running.Go(func() { x = s.say(callCtx, p, s.startOf(long), talk{started: started}) })
			select { // limit the wait, because not every call sends events
			case <-started:
			case <-time.After(300 * time.Millisecond):
			}
		}
		drained := make(chan error, 1)
		var canceled int32
		go func() {
			r, err := p.rpc.Drain(callCtx, &toolpb.DrainRequest{GraceMs: grace.Milliseconds()})
			canceled = r.GetCanceled()
			drained <- s.rpcError("Drain", err, p)
		}()
		if !isLong && !awaitDrain(v, drained, grace+cancelLimit+slack) {
			return // awaitDrain has already reported that Drain did not answer
		}
		c := s.probe()
		y := s.say(ctx, p, s.startOf(c), talk{})
		for end := time.Now().Add(grace / 2); isLong && y.result != nil && y.kind() != toolpb.Kind_KIND_UNAVAILABLE &&
			time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond) // wait, because Drain has possibly not yet arrived
			y = s.say(ctx, p, s.startOf(c), talk{})
		}
		if err := y.failure(p); err != nil {
			v.failf("a call after Drain: %v", err)
		} else if y.kind() != toolpb.Kind_KIND_UNAVAILABLE && c.Tool != unknownTool {
			v.failf("a call after Drain returns %s instead of an error of kind unavailable", outcome(y.result))
		}
		if !isLong || !awaitDrain(v, drained, grace+cancelLimit+slack) {
			return
		}
		running.Wait()
		if err := x.failure(p); err != nil {
			v.failf("%s, which was running at Drain: %v", &long, err)
		} else if canceled < 1 {
			v.failf("Drain reports %d canceled calls instead of one", canceled)
		}
	})
}

func awaitDrain(v *verdict, drained <-chan error, limit time.Duration) bool {
	select {
	case err := <-drained:
		if err != nil {
			v.failf("%v", err)
		}
		return err == nil
	case <-time.After(limit):
		v.failf("Drain with a grace of two seconds is not answered within %s", limit)
		return false
	}
}

// endLimit is how long a plugin can take to end.
const endLimit = 2 * time.Second

func checkLifeline(ctx context.Context, s *suite, v *verdict) {
	look := func(what string, p *process) {
		took, ok := p.end(endLimit + slack)
		switch {
		case !ok:
			v.failf("%s: the plugin does not exit when the host ends", what)
		case took > endLimit:
			v.warnf("%s: the plugin took %s to exit; a host kills it after %s", what, took.Round(10*time.Millisecond), endLimit)
		}
	}
	p, err := s.launch(ctx, true)
	if err != nil {
		v.failf("%v", err)
		return
	}
	look("right after the handshake", p)
	s.withProcess(ctx, v, func(p *process) { look("when it is idle", p) })
	if long, ok := s.long(); ok {
		s.withProcess(ctx, v, func(p *process) {
			var wg sync.WaitGroup
			wg.Go(func() { s.say(ctx, p, s.startOf(long), talk{}) })
			time.Sleep(200 * time.Millisecond)
			look(fmt.Sprintf("while %s runs", &long), p)
			wg.Wait()
		})
	}
}

func checkRestart(ctx context.Context, s *suite, v *verdict) {
	dir, err := s.stateDir()
	if err != nil {
		v.failf("%v", err)
		return
	}
	c := s.probe()
	if long, ok := s.long(); ok {
		c = long
	}
	for range 3 {
		p, err := s.beginIn(ctx, dir)
		if err != nil {
			v.failf("after the plugin was killed during a call: %v", err)
			return
		}
		var wg sync.WaitGroup
		wg.Go(func() { s.say(ctx, p, s.startOf(c), talk{}) })
		time.Sleep(20 * time.Millisecond)
		p.kill()
		wg.Wait()
	}
	p, err := s.beginIn(ctx, dir)
	if err != nil {
		v.failf("after the plugin was killed during a call: %v", err)
		return
	}
	defer p.kill()
	probe := s.probe()
	if err := s.say(ctx, p, s.startOf(probe), talk{}).failure(p); err != nil {
		v.failf("after the plugin was killed during a call, %s: %v", &probe, err)
	}
}

func checkBeside(ctx context.Context, s *suite, v *verdict) {
	dir, err := s.stateDir()
	if err != nil {
		v.failf("%v", err)
		return
	}
	for i := range 3 {
		p, err := s.beginIn(ctx, dir)
		if err != nil {
			v.failf("process %d on the same state directory: %v", i+1, err)
			return
		}
		defer p.kill()
		c := s.probe()
		if err := s.say(ctx, p, s.startOf(c), talk{}).failure(p); err != nil {
			v.failf("process %d on the same state directory, %s: %v", i+1, &c, err)
		}
	}
}

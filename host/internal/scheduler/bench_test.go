package scheduler

import (
	"testing"
)

// BenchmarkCall measures the cost of the scheduler per call: the queue of the session, and the gates of the tool and of
// the host. The program bench/scheduler.go prints the result.
func BenchmarkCall(b *testing.B) {
	pass := func(b *testing.B, s *Scheduler, g *Gates, session string, safe bool) {
		k := s.Enqueue(session)
		k.Claim(Claim{InOrder: true, Safe: safe})
		done, err := k.Wait(b.Context())
		if err != nil {
			b.Error(err)
			return
		}
		ofTool, err := g.Enter(b.Context(), "tool", Limits{Max: 64}, 0)
		if err != nil {
			b.Error(err)
			done()
			return
		}
		ofHost, err := g.Enter(b.Context(), "", Limits{Max: 64}, 0)
		if err != nil {
			b.Error(err)
		} else {
			ofHost()
		}
		ofTool()
		done()
	}
	b.Run("alone", func(b *testing.B) {
		s, g := New(10), new(Gates)
		for b.Loop() {
			pass(b, s, g, "s", true)
		}
	})
	for name, safe := range map[string]bool{"beside": true, "behind": false} {
		b.Run(name, func(b *testing.B) {
			s, g := New(10), new(Gates)
			b.SetParallelism(16) // 16 goroutines per processor
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					pass(b, s, g, "s", safe)
				}
			})
		})
	}
	// All calls of a batch are queued before the first call ends.
	b.Run("batch", func(b *testing.B) {
		s, g := New(10), new(Gates)
		const size = 10_000
		for b.Loop() {
			tickets := make([]*Ticket, size)
			for i := range tickets {
				tickets[i] = s.Enqueue("s")
				tickets[i].Claim(Claim{InOrder: true, Safe: i%10 != 3})
			}
			ended := make(chan struct{}, size)
			for _, t := range tickets {
				go func() {
					done, err := t.Wait(b.Context())
					if err == nil {
						leave, err := g.Enter(b.Context(), "tool", Limits{Max: 64}, 0)
						if err != nil {
							b.Error(err)
						} else {
							leave()
						}
						done()
					}
					ended <- struct{}{}
				}()
			}
			for range tickets {
				<-ended
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/call")
	})
}

package dispatch

import (
	"context"
	"slices"

	"toolhost.dev/sdk/tool"
)

// Handler carries out a call, or what remains of it.
type Handler func(ctx context.Context, c *Call) *tool.Result

// Stage is a named step in the life of a call. The handler that Wrap returns takes the step and calls next,
// unless the step ends the call. Each file that is named after a stage documents it.
type Stage struct {
	Name string
	Wrap func(next Handler) Handler
}

// stages lists the stages that a call goes through, the outermost first. A stage whose feature is off is left out.
func (d *Dispatcher) stages() []Stage {
	return compact(
		d.fallback(),
		d.record(),
		d.deadline(),
		d.hooks(),
		d.authorize(),
		d.queue(),
		d.limit(),
		d.reauthorize(),
		d.commands(),
		d.timeout(),
		d.session(),
		d.measure(),
		d.cache(),
		d.retry(),
	)
}

// compact leaves out the zero stages, which are those whose feature is off.
func compact(stages ...Stage) []Stage {
	return slices.DeleteFunc(stages, func(s Stage) bool { return s.Wrap == nil })
}

// prepare builds the handlers at the first call.
func (d *Dispatcher) prepare() {
	d.once.Do(func() {
		d.run = d.build(d.execute, d.stages())
		d.answer = d.build(func(_ context.Context, c *Call) *tool.Result { return c.Identity.Answer }, []Stage{d.record()})
	})
}

// build wraps the last handler in the stages.
func (d *Dispatcher) build(last Handler, stages []Stage) Handler {
	for _, s := range slices.Backward(stages) {
		last = d.traced(s.Name, s.Wrap(last))
	}
	return last
}

package dispatch

import (
	"encoding/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/router"
)

// exchange returns the command of a request of an MCP client that is not a call of a tool. Only the log and the history
// use it.
func exchange(req *call.Request) *router.Command {
	return &router.Command{
		Layer: router.Field, Name: req.Name, Args: []string{}, Kwargs: map[string]json.RawMessage{},
		Raw: req.Exchange.Method, Rule: router.RuleFunction,
		Reason: "a client of MCP sent the request " + req.Exchange.Method,
	}
}

// bindExchange sets the entry and the arguments of an exchange.
func (d *Dispatcher) bindExchange(c *Call) {
	x := c.Request.Exchange
	e := d.registry.Relay(x.Plugin, x.Kind, x.Item)
	if e == nil {
		c.Identity.Answer = call.Refused(tool.Errorf(tool.NotFound, "Plugin %s does not offer %s any more. List the prompts and resources again.", x.Plugin,
			tool.Item{Kind: x.Kind, Name: x.Item}.FullName()))
		return
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(c.Request.Arguments, &args); err != nil {
		c.Identity.Answer = call.Refused(tool.Errorf(tool.InvalidArguments, "The parameters of %s are not a JSON object: %w.", x.Method, err))
		return
	}
	c.Identity.Tool, c.Decision.Arguments = e, args
}

package call

// Name returns the name of the call's tool. If the tool is not known yet, it returns the first word of the command.
func (c *Call) Name() string {
	if c.Identity.Tool == nil {
		return c.Identity.Command.FirstWord()
	}
	return c.Identity.Tool.FullName()
}

// MetricsName returns the name under which the metrics count a call. An exchange is counted under its method, because
// the number of resource names that clients can use is unlimited.
func (c *Call) MetricsName(name string) string {
	if x := c.Request.Exchange; x != nil {
		return x.Plugin + ":" + x.Method
	}
	return name
}

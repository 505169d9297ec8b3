//go:build !renamed

package sdk

// adapt returns the plugin.
func adapt(p Plugin) Plugin { return p }

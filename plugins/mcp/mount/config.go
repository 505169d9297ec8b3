package mount

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
)

// These are the possible words of the attribute "offer".
const (
	offerTools       = "tools"
	offerPrompts     = "prompts"
	offerResources   = "resources"
	offerCompletions = "completions"
	offerLogging     = "logging"
)

// These are the possible words of the attribute "allow".
const (
	allowForm     = "elicitation"
	allowURL      = "elicitation-url"
	allowSampling = "sampling"
	allowRoots    = "roots"
)

// These are the possible words of the attribute "sessions".
const (
	sessionsShared = "shared"
	sessionsClient = "client"
)

// checkWords returns an error if "offer", "allow" or "sessions" has an unknown value.
func (c *Config) checkWords() error {
	check := func(attribute string, given []string, known ...string) error {
		for _, word := range given {
			if !slices.Contains(known, word) {
				return &sdk.ConfigError{
					Path: []string{attribute}, Summary: fmt.Sprintf("Unknown value %q of %s", word, attribute),
					Detail: "Use one of " + strings.Join(known, ", ") + ".",
				}
			}
		}
		return nil
	}
	if err := check("offer", c.Offer, offerTools, offerPrompts, offerResources, offerCompletions,
		offerLogging); err != nil {
		return err
	}
	if err := check("allow", c.Allow, allowForm, allowURL, allowSampling, allowRoots); err != nil {
		return err
	}
	if c.Sessions == "" {
		return nil
	}
	return check("sessions", []string{c.Sessions}, sessionsShared, sessionsClient)
}

// offers reports whether a feature of the server is offered to clients.
func (c *Config) offers(word string) bool {
	if c.Offer == nil {
		return word == offerTools
	}
	return slices.Contains(c.Offer, word)
}

// allows reports whether the server may send a kind of request to clients.
func (c *Config) allows(word string) bool {
	if c.Allow == nil {
		return word == allowForm
	}
	return slices.Contains(c.Allow, word)
}

// separates reports whether each session has a separate connection. On a shared connection, a request of a server of
// the older protocol does not name its call, so it is unknown which client must answer.
func (c *Config) separates() bool {
	if c.Sessions == "" {
		return c.allows(allowSampling) || c.allows(allowRoots)
	}
	return c.Sessions == sessionsClient
}

// capabilities returns the capabilities that the server sees at the start of a connection. The capabilities of a call
// replace them; see [conn.meta].
//
//nolint:staticcheck // roots and sampling belong to the older protocol, which most servers speak
func (c *Config) capabilities() *mcp.ClientCapabilities {
	out := &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{}}
	if c.allows(allowSampling) {
		out.Sampling = &mcp.SamplingCapabilities{}
	}
	if c.allows(allowForm) || c.allows(allowURL) {
		out.Elicitation = &mcp.ElicitationCapabilities{}
	}
	if c.allows(allowForm) {
		out.Elicitation.Form = &mcp.FormElicitationCapabilities{}
	}
	if c.allows(allowURL) {
		out.Elicitation.URL = &mcp.URLElicitationCapabilities{}
	}
	return out
}

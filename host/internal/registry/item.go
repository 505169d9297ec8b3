package registry

import (
	"cmp"
	"encoding/json"
	"net/url"
	"sync"

	"toolhost.dev/sdk/tool"
)

// Item is an object other than a tool that a plugin offers, such as a prompt.
type Item struct {
	tool.Item
	Plugin    string
	Namespace string
	// Offered is the name of the item for clients. It differs from the item's own name in two cases. For a prompt, it
	// begins with the name of the field. For a resource, it differs if several plugins offer the same name.
	Offered string
}

// FullName returns the name of the item in rules and in the audit log, such as "github:prompt/review".
func (i *Item) FullName() string {
	if i.Namespace != "" {
		return i.Namespace + ":" + i.Item.FullName()
	}
	return i.Item.FullName()
}

// Items returns the items of all plugins in the order of their registration. The caller must not modify the slice.
func (r *Registry) Items() []*Item { return r.snapshot.Load().items }

// addItems adds the items of a plugin to a snapshot.
func (s *snapshot) addItems(plugin, namespace string, items []tool.Item) {
	taken := make(map[string]bool)
	for _, i := range s.items {
		taken[string(i.Kind)+"/"+i.Offered] = true
	}
	seen := make(map[string]bool)
	for _, i := range items {
		if seen[i.FullName()] {
			continue // the plugin lists it twice
		}
		seen[i.FullName()] = true
		now := &Item{Item: i, Plugin: plugin, Namespace: namespace, Offered: i.Name}
		switch i.Kind {
		case tool.ItemPrompt:
			if now.Offered = functionName(namespace, i.Name); taken["prompt/"+now.Offered] {
				now.Offered = marked(now.Offered, now.FullName())
			}
		case tool.ItemResource:
			if taken["resource/"+i.Name] {
				now.Offered = "toolhost://" + cmp.Or(namespace, plugin) + "/" + url.PathEscape(i.Name)
			}
		}
		key := string(i.Kind) + "/" + now.Offered
		if i.Name != "" && taken[key] {
			continue // another plugin has the same template
		}
		taken[key] = true
		s.items = append(s.items, now)
	}
}

// Relay returns an entry for an exchange of a client with a plugin about an item. The entry is not registered, because
// only package dispatch uses it. Relay returns nil if the plugin offers no items of this kind. The name need not be the
// name of an offered item, because it can match a template for resources.
func (r *Registry) Relay(plugin string, kind tool.ItemKind, name string) *Entry {
	for _, i := range r.Items() {
		if i.Plugin != plugin || i.Kind != kind && (kind != tool.ItemResource || i.Kind != tool.ItemTemplate) {
			continue
		}
		def := tool.Definition{
			Name: tool.Item{Kind: kind, Name: name}.FullName(), Description: "An exchange with an MCP server.",
			Category: tool.CategoryRelay,
			Input:    exchangeSchema, Traits: tool.Traits{ReadOnly: true, Idempotent: true},
		}
		return &Entry{Definition: def, Plugin: plugin, Namespace: i.Namespace, Enabled: true, Timeout: -1,
			Life: new(Life), schema: parsedExchange}
	}
	return nil
}

// exchangeSchema accepts all parameters, because the plugin knows the method.
var exchangeSchema = json.RawMessage(`{"type":"object","additionalProperties":true}`)

var parsedExchange = sync.OnceValues(func() (*tool.Schema, error) { return tool.ParseSchema(exchangeSchema) })

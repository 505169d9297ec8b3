package tool

// Need is how much a plugin needs a grant.
type Need string

// The needs.
const (
	// NotNeeded is the zero value.
	NotNeeded Need = ""
	// Optional means that the plugin uses the grant and works without it.
	Optional Need = "optional"
	// Required means that the host does not load the plugin without the grant.
	Required Need = "required"
)

// Needs are the grants that a plugin needs from the operator. The zero value needs only what every
// plugin has: its own state directory.
type Needs struct {
	// Read is access to the files in the roots, Write the right to change files in writable roots.
	Read  Need `json:"read,omitempty"`
	Write Need `json:"write,omitempty"`
	// Exec is the right to start programs.
	Exec Need `json:"exec,omitempty"`
	// Network is access to the network or a part of it.
	Network Need     `json:"network,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`
}

// Secret is an environment variable with a secret that the operator passes to the plugin.
type Secret struct {
	Name string `json:"name"`
	// Need is Optional or Required.
	Need Need `json:"need"`
}

package tool

// Need says how much a plugin needs something.
type Need string

// The needs.
const (
	// NotNeeded is the zero value.
	NotNeeded Need = ""
	// Optional is what a plugin makes use of where it is granted, and works without.
	Optional Need = "optional"
	// Required is what a plugin is not used without.
	Required Need = "required"
)

// Needs is what a plugin has to be granted by the operator. The zero value needs nothing but
// what every plugin has: its own state directory.
type Needs struct {
	// Read files in the roots; Write in those that are writable.
	Read  Need `json:"read,omitempty"`
	Write Need `json:"write,omitempty"`
	// Exec is to start programs.
	Exec Need `json:"exec,omitempty"`
	// Network is to reach it, or a part of it.
	Network Need     `json:"network,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`
}

// Secret is an environment variable with a secret, which the operator gives the plugin.
type Secret struct {
	Name string `json:"name"`
	// Need is Optional or Required.
	Need Need `json:"need"`
}

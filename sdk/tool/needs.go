package tool

// Need is the degree to which a plugin needs a grant.
type Need string

// The values of [Need].
const (
	// NotNeeded means that the plugin does not use the grant. It is the zero value.
	NotNeeded Need = ""
	// Optional means that the plugin uses the grant but also works without it.
	Optional Need = "optional"
	// Required means that the host does not load the plugin without the grant.
	Required Need = "required"
)

// Needs lists the grants that a plugin needs from the operator. With the zero value, the plugin needs only its own
// state directory, which every plugin has.
type Needs struct {
	// Read is the grant to read the files in the roots. Write is the grant to change files in writable roots.
	Read  Need `json:"read,omitempty"`
	Write Need `json:"write,omitempty"`
	// Exec is the grant to start programs.
	Exec Need `json:"exec,omitempty"`
	// Network is the grant to access the network or a part of it.
	Network Need     `json:"network,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`
}

// Secret is an environment variable with a secret that the operator passes to the plugin.
type Secret struct {
	Name string `json:"name"`
	// Need must be [Optional] or [Required].
	Need Need `json:"need"`
}

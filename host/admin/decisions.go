package admin

import (
	"toolhost.dev/host/internal/admission"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/trust"
)

// ContentReview lists what a project file would do, and identifies its content. See [ReviewContent].
type ContentReview = admission.Review

// ContentEffect is one effect of a project file.
type ContentEffect = admission.Item

// ContentDecision is a decision to trust the content of a project file.
type ContentDecision = trust.Decision

// ReviewContent evaluates the configuration that opts selects and lists what it would run and permit. It starts nothing.
// The error says that there is no configuration file, or that it is invalid.
func ReviewContent(opts Options) (*ContentReview, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	return source.Review()
}

// TrustContent records that the user trusts the content with the given digest, which [ReviewContent] returned. Running
// hosts apply it. The error says that the content changed since.
func TrustContent(opts Options, digest string) (*ContentReview, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	return source.Trust(digest)
}

// RenewContent records files and programs of a trusted configuration again, after the user changed them. It does nothing
// if nobody trusted the configuration.
func RenewContent(opts Options, paths ...string) error {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return err
	}
	return source.Renew(paths...)
}

// TrustedContent returns all decisions in the state directory, sorted by path.
func TrustedContent(opts Options) ([]ContentDecision, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	decisions, err := source.Decisions()
	if err != nil {
		return nil, err
	}
	return decisions.All()
}

// RevokeContent removes the decisions about a configuration file, or about all of them in a directory and below. It
// returns their paths.
func RevokeContent(opts Options, path string) ([]string, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	decisions, err := source.Decisions()
	if err != nil {
		return nil, err
	}
	return decisions.Revoke(path)
}

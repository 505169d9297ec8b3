package admin

import (
	"toolhost.dev/host/internal/admission"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/trust"
)

// ContentReview lists the effects of a project file and identifies its content. See [ReviewContent].
type ContentReview = admission.Review

// ContentEffect is one effect of a project file.
type ContentEffect = admission.Item

// ContentDecision is a decision to trust the content of a project file.
type ContentDecision = trust.Decision

// ReviewContent evaluates the configuration in the options. It lists the programs that the configuration would start
// and the actions that it would permit. It starts no programs. If the configuration file does not exist or is invalid,
// ReviewContent returns an error.
func ReviewContent(opts Options) (*ContentReview, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	return source.Review()
}

// TrustContent records that the user trusts the content with the given digest. The digest comes from [ReviewContent].
// Running hosts apply the decision. If the content changed after the review, TrustContent returns an error.
func TrustContent(opts Options, digest string) (*ContentReview, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	review, err := source.Trust(digest)
	if err != nil {
		return nil, err
	}
	return review, audited(opts, "(trust)", map[string]any{"config": opts.Config, "digest": digest})
}

// RenewContent updates the recorded hashes of files and programs that the user changed. It does nothing if the
// configuration is not trusted.
func RenewContent(opts Options, paths ...string) error {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return err
	}
	return source.Renew(paths...)
}

// TrustedContent returns all decisions in the state directory, sorted by path.
func TrustedContent(opts Options) ([]ContentDecision, error) {
	decisions, err := decisions(opts)
	if err != nil {
		return nil, err
	}
	return decisions.All()
}

// RevokeContent removes the decision about a configuration file. If path is a directory, it removes the decisions about
// all files below the directory. It returns the paths of the files.
func RevokeContent(opts Options, path string) ([]string, error) {
	decisions, err := decisions(opts)
	if err != nil {
		return nil, err
	}
	paths, err := decisions.Revoke(path)
	if err != nil || len(paths) == 0 {
		return paths, err
	}
	return paths, audited(opts, "(revoke trust)", map[string]any{"paths": paths})
}

// decisions returns the trust store for the given options.
func decisions(opts Options) (*trust.Decisions, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	return source.Decisions()
}

//go:build unix && !linux

package localpg

// namespaceIdentity: only Linux has user namespaces.
func namespaceIdentity(identity) (identity, bool) { return identity{}, false }

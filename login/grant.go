package login

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Grant is what the members of a group may do.
type Grant struct {
	Group   string   // of the provider; "*" is everybody who can sign in
	Role    string   // reader, editor, admin
	Tenant  string   // "": the one that the tenant claim names, else the default one
	Corpora []string // empty: all of the tenant
}

// Everybody is the group of a [Grant] for all who can sign in.
const Everybody = "*"

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ParseGrant reads GROUP=ROLE[@TENANT][:CORPUS+CORPUS...]. The last "=" counts, because names of groups may hold some: cn=staff,ou=people=reader.
func ParseGrant(text string) (Grant, error) {
	wrong := func(what string) (Grant, error) {
		return Grant{}, fmt.Errorf("login: grant %q: %s; write GROUP=ROLE, GROUP=ROLE@TENANT or GROUP=ROLE@TENANT:CORPUS+CORPUS", text, what)
	}
	i := strings.LastIndex(text, "=")
	if i <= 0 {
		return wrong("there is no group")
	}
	g := Grant{Group: strings.TrimSpace(text[:i])}
	rest, corpora, limited := strings.Cut(strings.TrimSpace(text[i+1:]), ":")
	var named bool
	g.Role, g.Tenant, named = strings.Cut(rest, "@")
	if !slices.Contains([]string{"reader", "editor", "admin"}, g.Role) {
		return wrong(fmt.Sprintf("%q is not a role; there are reader, editor and admin", g.Role))
	}
	if named && !plainName.MatchString(g.Tenant) {
		return wrong(fmt.Sprintf("%q is not the name of a tenant", g.Tenant))
	}
	if limited {
		g.Corpora = strings.Split(corpora, "+")
		if i := slices.IndexFunc(g.Corpora, func(name string) bool { return !plainName.MatchString(name) }); i >= 0 {
			return wrong(fmt.Sprintf("%q is not the name of a corpus", g.Corpora[i]))
		}
	}
	return g, nil
}

// pick returns the first grant that one of groups has.
func pick(grants []Grant, groups []string) (Grant, bool) {
	for _, g := range grants {
		if g.Group == Everybody || slices.Contains(groups, g.Group) {
			return g, true
		}
	}
	return Grant{}, false
}

// stringsAt are the strings of a claim: one, or a list of them. A name with dots is also looked for as a path, as in realm_access.roles; a claim whose
// own name has the dots comes first.
func stringsAt(claims map[string]any, name string) (values []string, found bool) {
	value, found := claims[name]
	if first, rest, dotted := strings.Cut(name, "."); !found && dotted {
		inner, _ := claims[first].(map[string]any)
		return stringsAt(inner, rest)
	}
	switch value := value.(type) {
	case string:
		return []string{value}, true
	case []any:
		for _, item := range value {
			if text, ok := item.(string); ok {
				values = append(values, text)
			}
		}
		return values, true
	}
	return nil, false
}

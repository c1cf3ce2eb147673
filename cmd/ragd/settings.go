package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// settingsVersion is the form of the settings file that this ragd reads: keys are the flags without dashes in front; those of a command stand under its
// name. A change that gives a key another meaning raises it; a file of an older form is read as it was meant, one of a newer form is refused.
const settingsVersion = 1

// settings is a file of settings.
type settings struct {
	root   *yaml.Node // a mapping; nil: the file is empty
	values map[string]any
}

var _ kong.Resolver = (*settings)(nil)

// loadSettings reads a settings file. It may have been written by hand: everything that would be ignored is an error.
func loadSettings(r io.Reader) (kong.Resolver, error) {
	var document yaml.Node
	if err := yaml.NewDecoder(r).Decode(&document); errors.Is(err, io.EOF) {
		return &settings{}, nil
	} else if err != nil {
		return nil, err
	}
	s := &settings{root: document.Content[0]}
	if s.root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: the file must hold keys with values, such as 'version: %d'", s.root.Line, settingsVersion)
	}
	if err := document.Decode(&s.values); err != nil { // also: a key that stands there twice
		return nil, err
	}
	if v, given := s.values["version"]; given && v != settingsVersion {
		return nil, fmt.Errorf("version is %v; this ragd reads version %d: use a newer ragd, or write the file anew ('ragd config' prints one)", v, settingsVersion)
	}
	return s, nil
}

// Validate refuses keys that are no settings.
func (s *settings) Validate(app *kong.Application) error {
	if s.root == nil {
		return nil
	}
	return validateKeys(s.root, app.Node, true)
}

func validateKeys(mapping *yaml.Node, node *kong.Node, top bool) error {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if top && key.Value == "version" {
			continue
		}
		if flag := settingOf(node, key.Value); flag != nil {
			if value.Kind == yaml.MappingNode {
				return fmt.Errorf("line %d: %s takes a value, not keys of its own", value.Line, key.Value)
			}
			continue
		}
		command := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == key.Value })
		switch {
		case command < 0:
			return fmt.Errorf("line %d: there is no setting %q here; 'ragd config' prints those that there are", key.Line, key.Value)
		case value.Kind != yaml.MappingNode:
			return fmt.Errorf("line %d: %s is a command: its settings stand below it, indented", value.Line, key.Value)
		}
		if err := validateKeys(value, node.Children[command], false); err != nil {
			return err
		}
	}
	return nil
}

// settingOf is the flag of a command that a key names.
func settingOf(node *kong.Node, name string) *kong.Flag {
	for _, flag := range node.Flags {
		if flag.Name == name && name != "help" {
			return flag
		}
	}
	return nil
}

// Resolve gives a flag its value. The environment comes before the file.
func (s *settings) Resolve(parsed *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if err := s.Validate(parsed.Model); err != nil { // kong asks for that after it has used the values
		return nil, err
	}
	if _, set := environmentOf(flag); set {
		return nil, nil
	}
	return s.value(parent.Node(), flag), nil
}

// value is what the file says of a flag of a command; nil: nothing.
func (s *settings) value(node *kong.Node, flag *kong.Flag) any {
	var path []string
	for ; node != nil && node.Type != kong.ApplicationNode; node = node.Parent {
		path = append(path, node.Name)
	}
	slices.Reverse(path)
	at := s.values
	for _, name := range path {
		at, _ = at[name].(map[string]any)
	}
	return at[flag.Name]
}

// environmentOf is the variable that sets a flag.
func environmentOf(flag *kong.Flag) (name string, set bool) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return name, true
		}
	}
	return "", false
}

// setting is a flag with its value in force and where that comes from.
type setting struct {
	name, value, origin string
	text                bool // not a number, a length of time or a truth value
	secret              bool
}

// settingsOf lists the settings of a command, in the order of its help.
func settingsOf(parsed *kong.Context, file *settings, node *kong.Node) (all []setting) {
	for _, flag := range node.Flags {
		if flag.Name == "help" || flag.Hidden {
			continue
		}
		one := setting{name: flag.Name, value: flag.Default, origin: "default", secret: flag.Tag.Has("secret"),
			text: flag.Target.Kind() == reflect.String || flag.Target.Kind() == reflect.Slice}
		given := slices.ContainsFunc(parsed.Path, func(p *kong.Path) bool { return p.Flag == flag && !p.Resolved })
		switch name, set := environmentOf(flag); {
		case given:
			one.value, one.origin = fmt.Sprint(parsed.FlagValue(flag)), "command line"
		case set:
			one.value, one.origin = os.Getenv(name), "environment "+name
		case file.value(node, flag) != nil:
			one.value, one.origin = scalar(file.value(node, flag), flag.Tag.Sep), "file"
		}
		if one.name == "database-url" || one.name == "engine-url" {
			one.value = redactURL(one.value)
		}
		all = append(all, one)
	}
	return all
}

// scalar is a value of the file as one flag takes it.
func scalar(value any, separator rune) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = fmt.Sprint(item)
	}
	return strings.Join(texts, string(separator))
}

// write prints settings as a part of a settings file. A secret is not shown, and nothing is written that would set one.
func write(w io.Writer, indent string, all []setting) {
	for _, s := range all {
		line := indent + s.name + ": " + s.value
		if s.text {
			line = indent + s.name + ": " + quoted(s.value)
		}
		switch {
		case s.secret && s.value == "":
			line = indent + "# " + s.name + ": none"
		case s.secret:
			line = indent + "# " + s.name + ": (not shown)"
		case s.value == "":
			line = indent + "# " + s.name + ":"
		}
		fmt.Fprintf(w, "%-60s # %s\n", line, s.origin)
	}
}

// quoted is a scalar of YAML that is read back as the same text.
func quoted(text string) string {
	out, err := yaml.Marshal(text)
	if err != nil || strings.Contains(strings.TrimSuffix(string(out), "\n"), "\n") {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSuffix(string(out), "\n")
}

package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"ragd/server"
)

// openAPI is a parsed description, as maps and lists.
type openAPI map[string]any

var loadDescription = sync.OnceValues(func() (openAPI, error) {
	data, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	var d map[string]any
	return d, yaml.Unmarshal(data, &d)
})

func description(t testing.TB) openAPI {
	t.Helper()
	d, err := loadDescription()
	require.NoError(t, err)
	return d
}

// at follows keys and references.
func (d openAPI) at(from any, keys ...string) map[string]any {
	if d, ok := from.(openAPI); ok {
		from = map[string]any(d)
	}
	m := d.resolve(from)
	for _, key := range keys {
		m = d.resolve(m[key])
	}
	return m
}

func (d openAPI) resolve(v any) map[string]any {
	m, _ := v.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	return d.at(d, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

// operation finds the description of a request.
func (d openAPI) operation(method, path string) map[string]any {
	for pattern, item := range d["paths"].(map[string]any) {
		if regexp.MustCompile("^" + regexp.MustCompile(`\{\w+\}`).ReplaceAllString(pattern, "[^/]+") + "$").MatchString(path) {
			return d.at(item, strings.ToLower(method))
		}
	}
	return nil
}

// check holds a JSON response against the description.
func (d openAPI) check(method, path string, status int, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	schema := d.at(d, "components", "schemas", "Error")
	if status < 300 {
		operation := d.operation(method, path)
		schema = d.at(operation, "responses", fmt.Sprint(status), "content", "application/json", "schema")
		if schema == nil {
			return fmt.Errorf("%s %s: status %d is not described", method, path, status)
		}
	}
	return d.valid(schema, v, method+" "+path)
}

// valid reports where v is not as schema says. Beyond JSON Schema, an object must not have properties that its schema does not list.
func (d openAPI) valid(schema any, v any, where string) error {
	s := d.resolve(schema)
	if any, ok := s["anyOf"].([]any); ok {
		var err error
		for _, option := range any {
			if err = d.valid(option, v, where); err == nil {
				return nil
			}
		}
		return err
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		return fmt.Errorf("%s: %v is not one of %v", where, v, enum)
	}
	kinds, ok := s["type"].([]any)
	if !ok && s["type"] == nil {
		return fmt.Errorf("%s: no type is described", where)
	}
	if !ok {
		kinds = []any{s["type"]}
	}
	if kind := kindOf(v); !slices.Contains(kinds, any(kind)) && (kind != "integer" || !slices.Contains(kinds, any("number"))) {
		return fmt.Errorf("%s: %v is %s, described as %v", where, v, kind, kinds)
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if err := d.valid(s["items"], item, fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		return d.validObject(s, v, where)
	}
	return nil
}

func (d openAPI) validObject(s map[string]any, v map[string]any, where string) error {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s: %s is missing", where, name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, value := range v {
		property, known := properties[name]
		if !known {
			property, known = s["additionalProperties"].(map[string]any)
		}
		if open, _ := s["additionalProperties"].(bool); !known && open {
			continue
		}
		if !known {
			return fmt.Errorf("%s: %s is not described", where, name)
		}
		if err := d.valid(property, value, where+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func TestEveryRouteIsDescribedAndEveryDescribedPathExists(t *testing.T) {
	h := serve(t, sample, server.Config{})
	var served, described []string
	for _, route := range h.server.Handler().(*gin.Engine).Routes() {
		if route.Method != "HEAD" { // as GET, without a body
			served = append(served, route.Method+" "+regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.Path, "{$1}"))
		}
	}
	for path, item := range description(t)["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" && method != "head" {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	require.Equal(t, described, served)
	require.Equal(t, 200, h.get("/openapi.yaml").StatusCode)
}

func TestEveryReferenceOfTheDescriptionResolves(t *testing.T) {
	data, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	for _, ref := range regexp.MustCompile(`\$ref: "([^"]+)"`).FindAllStringSubmatch(string(data), -1) {
		require.NotEmpty(t, description(t).resolve(map[string]any{"$ref": ref[1]}), ref[1])
	}
}

// Every property that a request's schema lists is sent, in a form that it allows: a property that the server does not know would be refused.
func TestDescribedRequestsAreTaken(t *testing.T) {
	h := serve(t, sample, server.Config{})
	examples := map[string]any{"string": "x", "integer": 1, "number": 1, "boolean": false, "object": map[string]any{}}
	for path, schema := range map[string]string{"/v1/ask": "AskRequest", "/v1/search": "SearchRequest"} {
		d := description(t)
		properties := d.at(d, "components", "schemas", schema, "properties")
		require.False(t, d.at(d, "components", "schemas", schema)["additionalProperties"].(bool))
		body := map[string]any{}
		for name := range maps.Keys(properties) {
			p := d.resolve(properties[name])
			if kind, ok := p["type"].(string); ok {
				body[name] = examples[kind]
			} else {
				body[name] = nil // nullable
			}
		}
		data, err := json.Marshal(body)
		require.NoError(t, err)
		require.Equal(t, 200, h.post(path, string(data)).StatusCode)
	}
}

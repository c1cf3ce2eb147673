package ingest

import (
	"bytes"
	"context"
	"path"
	"strings"
)

// officeKind tells docx, pptx and xlsx apart by their content types, which
// are the same in transitional and strict files.
func (z *zipFile) officeKind() (string, error) {
	types, err := z.part(context.Background(), "[Content_Types].xml")
	if err != nil {
		return "", err
	}
	for _, k := range [...]struct{ mark, kind string }{
		{"wordprocessingml", "docx"}, {"ms-word.", "docx"}, {"presentationml", "pptx"}, {"ms-powerpoint.", "pptx"}, {"spreadsheetml", "xlsx"}, {"ms-excel.", "xlsx"},
	} {
		if bytes.Contains(types, []byte(k.mark)) && z.hasDir(k.kind) {
			return k.kind, nil
		}
	}
	return "zip", nil
}

// hasDir guards against a document that only embeds a workbook: the content
// types name both, the folders of the package tell which is the main one.
func (z *zipFile) hasDir(kind string) bool {
	dir := map[string]string{"docx": "word/", "pptx": "ppt/", "xlsx": "xl/"}[kind]
	for _, f := range z.File {
		if strings.HasPrefix(strings.ToLower(slashes(f.Name)), dir) {
			return true
		}
	}
	return false
}

// relation is one entry of a part's relationships.
type relation struct {
	kind   string // last element of the relationship type: "slide", "header", "comments"
	target string // part name, "" when it is external
}

// relations of a part (of the package itself for ""), by id. A part without any has an empty map.
func (z *zipFile) relations(ctx context.Context, part string) (map[string]relation, error) {
	rels := make(map[string]relation)
	dir, base := path.Split(part)
	data, err := z.part(ctx, dir+"_rels/"+base+".rels")
	if data == nil || err != nil {
		return rels, err
	}
	root, err := xmlRoot(ctx, z.s, data)
	if err != nil {
		return nil, err
	}
	root.each("rel:Relationship", func(n *node) {
		r := relation{kind: path.Base(n.attr("Type"))}
		if n.attr("TargetMode") != "External" {
			if r.target = n.attr("Target"); strings.HasPrefix(r.target, "/") {
				r.target = r.target[1:]
			} else {
				r.target = path.Join(dir, r.target)
			}
		}
		rels[n.attr("Id")] = r
	})
	return rels, nil
}

// mainPart is where the package's document begins.
func (z *zipFile) mainPart(ctx context.Context, fallback string) (string, error) {
	rels, err := z.relations(ctx, "")
	if err != nil {
		return "", err
	}
	for _, r := range rels {
		if r.kind == "officeDocument" && r.target != "" {
			return r.target, nil
		}
	}
	return fallback, nil
}

// need is a part that the document cannot be read without.
func (z *zipFile) need(ctx context.Context, name string) ([]byte, error) {
	data, err := z.part(ctx, name)
	if err == nil && data == nil {
		err = failf(Corrupt, "%s lacks its part %s; the file is damaged, open it in the program that made it and save it again", z.s.name, memberName(name))
	}
	return data, err
}

// tree is an optional part as a tree; nil when the package has none.
func (z *zipFile) tree(ctx context.Context, name string) (*node, error) {
	data, err := z.part(ctx, name)
	if data == nil || err != nil {
		return nil, err
	}
	return xmlRoot(ctx, z.s, data)
}

// coreTitle is the title in the package's properties.
func (z *zipFile) coreTitle(ctx context.Context) string {
	root, err := z.tree(ctx, "docProps/core.xml")
	if err != nil {
		return "" // properties are a nicety; the document itself decides whether the file is sound
	}
	title := ""
	root.each("dc:title", func(n *node) { title = n.allText() })
	return title
}

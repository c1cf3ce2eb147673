package ingest

import (
	"context"
	"encoding/xml"
	"net/url"
	"path"
	"strings"
)

// readEPUB reads a book's documents in reading order. Items outside the spine
// (cover art, navigation pages of EPUB 3) are not text.
func readEPUB(ctx context.Context, s *source, b *builder) error {
	z, err := s.openZip()
	if err != nil {
		return err
	}
	container, err := z.need(ctx, "META-INF/container.xml")
	if err != nil {
		return err
	}
	root, err := xmlRoot(ctx, s, container)
	if err != nil {
		return err
	}
	opf := ""
	root.each("rootfile", func(n *node) {
		if opf == "" {
			opf = n.attr("full-path")
		}
	})
	data, err := z.need(ctx, opf)
	if err != nil {
		return err
	}
	book, err := xmlRoot(ctx, s, data)
	if err != nil {
		return err
	}
	book.each("dc:title", func(n *node) {
		if b.title == "" {
			b.title = n.allText()
		}
	})
	locked, err := encryptedItems(ctx, z)
	if err != nil {
		return err
	}
	items := make(map[string]string) // id -> part
	nav := ""
	book.each("item", func(n *node) {
		href, err := url.PathUnescape(n.attr("href"))
		if err != nil {
			href = n.attr("href")
		}
		items[n.attr("id")] = path.Join(path.Dir(opf), href)
		if strings.Contains(" "+n.attr("properties")+" ", " nav ") {
			nav = n.attr("id")
		}
	})
	var spine []string
	book.each("itemref", func(n *node) {
		if id := n.attr("idref"); id != nav && items[id] != "" {
			spine = append(spine, items[id])
		}
	})
	for _, part := range spine {
		if locked[part] {
			return failf(Encrypted, "%s is protected by digital rights management; only an unprotected copy can be ingested", s.name)
		}
		if err := readChapter(ctx, z, part, b); err != nil {
			return err
		}
	}
	return nil
}

func readChapter(ctx context.Context, z *zipFile, part string, b *builder) error {
	data, err := z.part(ctx, part)
	if err != nil {
		return err
	}
	if data == nil { // a book with one chapter missing is still a book
		b.warn(WarnTruncated)
		return nil
	}
	m := &source{name: part, data: data, depth: z.s.depth + 1, budget: z.s.budget}
	root, err := parseHTML(decodeHTML(m, b))
	if err != nil {
		return htmlError(m, err)
	}
	return walkHTML(ctx, m, b, root)
}

// encryptedItems lists the parts under encryption. Obfuscated fonts are listed
// there too, in books that anybody may read.
func encryptedItems(ctx context.Context, z *zipFile) (map[string]bool, error) {
	locked := make(map[string]bool)
	data, err := z.part(ctx, "META-INF/encryption.xml")
	if data == nil || err != nil {
		return locked, err
	}
	var list struct {
		Data []struct {
			Cipher struct {
				Reference struct {
					URI string `xml:"URI,attr"`
				} `xml:"CipherReference"`
			} `xml:"CipherData"`
		} `xml:"EncryptedData"`
	}
	if err := xml.Unmarshal(data, &list); err != nil {
		return nil, xmlError(ctx, z.s, err)
	}
	for _, d := range list.Data {
		locked[path.Clean(d.Cipher.Reference.URI)] = true
	}
	return locked, nil
}

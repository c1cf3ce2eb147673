package model

// PageBytes is the size of the image of one cache page: its keys and values in all
// layers.
func (m *Model) PageBytes() int {
	n := 0
	for i := range m.layers {
		n += m.layers[i].attend.KV.PageBytes()
	}
	return n
}

// ReadPage copies a page into image, of PageBytes bytes. The image is good for the
// same model with the same kind of cache on the same kernel path.
func (m *Model) ReadPage(page int32, image []byte) {
	for i := range m.layers {
		kv := m.layers[i].attend.KV
		kv.ReadPage(int(page), image)
		image = image[kv.PageBytes():]
	}
}

// WritePage copies image, which a ReadPage has filled, into a page. It trusts the
// bytes.
func (m *Model) WritePage(page int32, image []byte) {
	for i := range m.layers {
		kv := m.layers[i].attend.KV
		kv.WritePage(int(page), image)
		image = image[kv.PageBytes():]
	}
}

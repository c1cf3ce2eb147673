package ingest

import "context"

func readPDF(ctx context.Context, s *source, b *builder) error { return nil }

// Placeholder: what is built from web/ takes its place.

// Small functions that a program shares, in a header.
#ifndef VECTORS_HPP
#define VECTORS_HPP

#include <cstddef>
#include <vector>

template <class T> inline T dot(const std::vector<T> &left, const std::vector<T> &right)
{
    T sum = 0;
    for (std::size_t i = 0; i < left.size(); i++) {
        sum += left[i] * right[i];
    }
    return sum;
}

#endif
